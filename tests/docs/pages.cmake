# Turns the C++ of a page into programs.
#
# The blocks ```cpp and the comments `<!-- cpp ... -->` of a page, which readers do not see, follow one another as they
# stand in it. A program ends with the block that has `int main`; the next block begins the next program. All of a
# page's C++ is in some program. A block ```text under the comment `<!-- prints -->` is what the program before it
# prints, exactly.

# Leaves the file alone where it has this content already, so that nothing is built again.
function(constrain_write file content)
  set(old "")
  if(EXISTS ${file})
    file(READ ${file} old)
  endif()
  if(NOT "${old}" STREQUAL "${content}" OR NOT EXISTS ${file})
    file(WRITE ${file} "${content}")
  endif()
endfunction()

function(constrain_count_lines text result)
  string(REGEX MATCHALL "\n" ends "${text}")
  list(LENGTH ends lines)
  set(${result} ${lines} PARENT_SCOPE)
endfunction()

function(constrain_read_page page)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  file(RELATIVE_PATH shown ${PROJECT_SOURCE_DIR} ${page})
  get_filename_component(name ${page} NAME_WE)
  string(TOLOWER ${name} name)
  file(READ ${page} rest)

  # A block of another kind would go untested unnoticed.
  string(REGEX MATCHALL "\n```[^`\n]+" fences "${rest}")
  foreach(fence IN LISTS fences)
    if(NOT fence MATCHES "^\n```(cpp|cmake|sh|text)$")
      string(STRIP "${fence}" fence)
      message(FATAL_ERROR "${shown}: a block begins with ${fence}; write cpp, cmake, sh or text")
    endif()
  endforeach()

  set(openings "\n```cpp\n" "\n<!-- cpp\n" "\n<!-- prints -->\n```text\n")
  set(closings "\n```" "\n-->" "\n```")
  set(line 1)        # of what `rest` begins with
  set(code "")       # of the program that is being read
  set(code_line 0)   # of its last block
  set(number 0)      # of the program
  set(source "")     # of the last whole one
  set(expected "")   # what it prints
  while(TRUE)
    # The next block is the one that begins first.
    set(begin -1)
    foreach(kind RANGE 2)
      list(GET openings ${kind} opening)
      string(FIND "${rest}" "${opening}" at)
      if(at GREATER_EQUAL 0 AND (begin LESS 0 OR at LESS begin))
        set(begin ${at})
        set(chosen ${kind})
      endif()
    endforeach()

    # What a program prints stands before the next one's code.
    if(NOT source STREQUAL "" AND (begin LESS 0 OR NOT chosen EQUAL 2))
      constrain_add_page_test(${name}.${number} ${source} "${expected}"
                              "write into the block of ${shown} what the program prints")
      set(source "")
      set(expected "")
    endif()
    if(begin LESS 0)
      break()
    endif()

    list(GET openings ${chosen} opening)
    list(GET closings ${chosen} closing)
    string(LENGTH "${opening}" length)
    math(EXPR begin "${begin} + ${length}")
    string(SUBSTRING "${rest}" 0 ${begin} before)
    constrain_count_lines("${before}" lines)
    math(EXPR line "${line} + ${lines}")
    math(EXPR begin "${begin} - 1") # an empty block closes with the line end that opened it
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "${closing}" end)
    if(end LESS 0)
      message(FATAL_ERROR "${shown}:${line}: the block that begins here does not end")
    endif()
    string(SUBSTRING "${rest}" 0 ${end} block)
    string(SUBSTRING "${rest}" ${end} -1 rest)
    constrain_count_lines("${block}" lines)

    if(chosen EQUAL 2)
      if(source STREQUAL "")
        message(FATAL_ERROR "${shown}:${line}: what is printed follows no program")
      endif()
      string(SUBSTRING "${block}" 1 -1 block)
      set(expected ${CMAKE_CURRENT_BINARY_DIR}/${name}.${number}.expected)
      constrain_write(${expected} "${block}\n")
    else()
      string(APPEND code "#line ${line} \"${shown}\"${block}\n")
      set(code_line ${line})
      if(block MATCHES "\nint main\\(")
        math(EXPR number "${number} + 1")
        set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.${number}.cpp)
        constrain_write(${source} "${code}")
        set(code "")
      endif()
    endif()
    math(EXPR line "${line} + ${lines} - 1")
  endwhile()
  if(NOT code STREQUAL "")
    message(FATAL_ERROR "${shown}:${code_line}: this code is in no program: no `int main` follows")
  endif()
endfunction()
