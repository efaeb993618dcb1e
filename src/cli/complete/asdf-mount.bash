# Completion of asdf-mount for bash. The program itself tells what can stand at the cursor, and quotes it: with
# "compopt -o filenames", bash would look for a file of that name first, and expand a $ in it.
_asdf_mount() {
    local -a answer=()
    mapfile -d '' answer < <("${1/#\~/$HOME}" --complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=("${answer[@]:1}")
    case ${answer[0]-} in
        words | paths) compopt +o bashdefault +o default ;;
        list) compopt +o bashdefault +o default -o nospace ;;
        within)
            compopt +o bashdefault +o default
            [[ ${COMPREPLY[0]-} != */ ]] || compopt -o nospace
            ;;
        folders) compopt +o bashdefault +o default -o dirnames ;;
    esac
}
complete -o bashdefault -o default -F _asdf_mount asdf-mount
