#compdef asdf-mount
# Completion of asdf-mount for zsh. The program itself tells what can stand at the cursor.
_asdf_mount() {
    local program=${(Q)words[1]} word=$PREFIX kind cut value name what
    [[ $compstate[quoting] == single ]] || word=${(Q)PREFIX}
    local -a before=("${(@Q)words[2,CURRENT-1]}") answer=() values=() shown=()
    answer=("${(@0)$(${~program} --complete zsh "${before[@]}" "$word" 2>/dev/null)}")
    kind=$answer[1] cut=$answer[2]
    for value name what in "${(@)answer[3,-2]}"; do
        # Within quotes, zsh inserts other bytes than those of a name that is not text in the locale.
        [[ -z $compstate[quoting] || ${(V)value} != *'\M-'* ]] || continue
        # _describe takes the text after a colon for a description.
        values+=("${${value//\\/\\\\}//:/\\:}")
        shown+=("${${name//\\/\\\\}//:/\\:}${what:+:$what}")
    done
    case $kind in
        words) _describe 'option or value' shown values ;;
        list) _describe 'mount option' shown values -S '' ;;
        within)
            if [[ $#values == 1 && $values[1] == */ ]]; then
                _describe 'path in the file' shown values -S ''
            else
                _describe 'path in the file' shown values
            fi
            ;;
        paths) _describe 'mountpoint' shown values ;;
        files) compset -p $#cut; _files ;;
        folders) compset -p $#cut; _files -/ ;;
    esac
}
if [[ $funcstack[1] == _asdf-mount ]]; then
    _asdf_mount "$@"
else
    compdef _asdf_mount asdf-mount
fi
