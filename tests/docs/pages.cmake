# Turns the C++ of a page into programs.
#
# The ```cpp blocks of a page and its hidden comments `<!-- cpp ... -->` are concatenated in their order. A program ends
# with the block that contains `int main`; the next block begins the next program. All C++ of a page belongs to a
# program. A ```text block under the comment `<!-- prints -->` is the exact output of the program before it.

# Writes the file unless it already has this content, so that nothing is rebuilt.
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

  # Blocks of other kinds would silently go untested.
  string(REGEX MATCHALL "\n```[^`\n]+" fences "${rest}")
  foreach(fence IN LISTS fences)
    if(NOT fence MATCHES "^\n```(cpp|cmake|sh|text)$")
      string(STRIP "${fence}" fence)
      message(FATAL_ERROR "${shown}: a block begins with ${fence}; write cpp, cmake, sh or text")
    endif()
  endforeach()

  set(openings "\n```cpp\n" "\n<!-- cpp\n" "\n<!-- prints -->\n```text\n")
  set(closings "\n```" "\n-->" "\n```")
  set(line 1)        # line of the page at which `rest` begins
  set(code "")       # code of the current program so far
  set(code_line 0)   # line of its last block
  set(number 0)      # number of the program
  set(source "")     # source of the last complete program
  set(expected "")   # its output
  while(TRUE)
    # The next block is the one whose opening comes first.
    set(begin -1)
    foreach(kind RANGE 2)
      list(GET openings ${kind} opening)
      string(FIND "${rest}" "${opening}" at)
      if(at GREATER_EQUAL 0 AND (begin LESS 0 OR at LESS begin))
        set(begin ${at})
        set(chosen ${kind})
      endif()
    endforeach()

    # The output of a program comes before the next program's code.
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
    math(EXPR begin "${begin} - 1") # an empty block ends at the newline that opened it
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
