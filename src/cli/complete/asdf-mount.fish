# Completion of asdf-mount for fish. The program itself tells what can stand at the cursor.
function __asdf_mount_ask
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l unquoted (string unescape -- "$word"; or string trim -l -c \'\" -- "$word")
    set -l program $words[1]
    set -e words[1]
    type -q $program; and $program --complete fish $words "$unquoted" 2>/dev/null
end
function __asdf_mount_wants
    set -l answer (__asdf_mount_ask | string split0)
    test "$answer[1]" = "$argv"
end
function __asdf_mount_candidates
    set -l answer (__asdf_mount_ask | string split0)
    set -e answer[1]
    string join0 -- $answer
end
complete -c asdf-mount -f -a '(__asdf_mount_candidates | string split0)'
complete -c asdf-mount -n '__asdf_mount_wants files' -F
complete -c asdf-mount -n '__asdf_mount_wants folders' -a '(__fish_complete_directories (commandline -ct))'
