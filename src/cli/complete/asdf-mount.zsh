#compdef asdf-mount
# Completion of asdf-mount for zsh. The program itself tells what can stand at the cursor.
_asdf_mount() {
    local program=${(Q)words[1]} kind cut value what
    local -a before=("${(@Q)words[2,CURRENT-1]}") candidates=()
    {
        IFS=$'\t' read -r kind cut
        while IFS=$'\t' read -r value what; do
            candidates+=("${${value//\\/\\\\}//:/\\:}${what:+:$what}")
        done
    } < <(${~program} --complete "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)
    compset -p $#cut
    case $kind in
        words) _describe 'option or value' candidates ;;
        list) _describe 'mount option' candidates -S '' ;;
        within)
            if [[ $#candidates == 1 && $candidates[1] == */ ]]; then
                _describe 'path in the file' candidates -S ''
            else
                _describe 'path in the file' candidates
            fi
            ;;
        paths) _describe 'mountpoint' candidates ;;
        files) _files ;;
        folders) _alternative 'values:value:{_describe value candidates}' 'folders:folder:_files -/' ;;
    esac
}
if [[ $funcstack[1] == _asdf-mount ]]; then
    _asdf_mount "$@"
else
    compdef _asdf_mount asdf-mount
fi
