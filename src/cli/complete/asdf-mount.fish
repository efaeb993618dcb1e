# Completion of asdf-mount for fish. The program itself tells what can stand at the cursor.
function __asdf_mount_ask
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l unquoted (string unescape -- "$word"; or string trim -l -c \'\" -- "$word")
    set -l program $words[1]
    set -e words[1]
    type -q $program; and $program --complete $words "$unquoted" 2>/dev/null
end
function __asdf_mount_wants
    string match -q "$argv"\t'*' (__asdf_mount_ask)[1]
end
function __asdf_mount_candidates
    set -l lines (__asdf_mount_ask)
    set -l cut (string split -f 2 \t -- $lines[1])
    set -e lines[1]
    for line in $lines
        echo -- $cut$line
    end
end
complete -c asdf-mount -f -a '(__asdf_mount_candidates)'
complete -c asdf-mount -n '__asdf_mount_wants files' -F
complete -c asdf-mount -n '__asdf_mount_wants folders' -a '(__fish_complete_directories (commandline -ct))'
