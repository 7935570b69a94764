# Prints chains of headers, one per line, that together are all files given: each header but the last of a chain is
# included, directly or not, by the next one. CUDA headers are in separate chains. An .ipp file that a header includes
# for its definitions does not count.
FNR == 1 { files[++count] = FILENAME }
/^#include ["<]constrain\// {
  split($2, quoted, /["<>]/)
  if (quoted[2] !~ /\.ipp$/) direct[FILENAME] = direct[FILENAME] " " quoted[2]
}
# Collects what `file` includes, directly or not, in all[of, ...].
function collect(of, file,   names, i, n) {
  n = split(direct[file], names, " ")
  for (i = 1; i <= n; ++i)
    if (!((of, names[i]) in all)) {
      all[of, names[i]]
      ++size[of]
      collect(of, names[i])
    }
}
# The unprinted header with the most includes, of those that `file` includes (with `file` empty, of all); empty if none.
function next_of(file,   i, best) {
  best = ""
  for (i = 1; i <= count; ++i)
    if (!(files[i] in printed) && (file == "" || ((file, files[i]) in all && is_cuda(file) == is_cuda(files[i]))))
      if (best == "" || size[files[i]] > size[best]) best = files[i]
  return best
}
function is_cuda(file) { return file ~ /\.cuh$/ }
END {
  for (i = 1; i <= count; ++i) {
    size[files[i]] += 0
    collect(files[i], files[i])
  }
  while ((top = next_of("")) != "") {
    chain = ""
    for (at = top; at != ""; at = next_of(at)) {
      printed[at]
      chain = at (chain == "" ? "" : " " chain)
    }
    print chain
  }
}
