# Completion of asdf-mount for bash. The program itself tells what can stand at the cursor.
_asdf_mount() {
    local words word typed kind cut value
    # The words up to the cursor, without backslashes that quote; COMP_WORDS are cut at "=" and ":".
    read -a words <<<"${COMP_LINE:0:COMP_POINT}."
    word=${words[-1]%.}
    IFS= read typed <<<"$2"
    word=${word#[\"\']} typed=${typed#[\"\']}
    # A quoted word may hold spaces.
    [[ $word == *"$typed" ]] || word=$typed
    COMPREPLY=()
    {
        IFS=$'\t' read -r kind cut
        while IFS=$'\t' read -r value _; do
            # Bash replaces only what it takes for the word: what is behind the last "=" or ":".
            value=$cut$value
            COMPREPLY+=("${value#"${word%"$typed"}"}")
        done
    } < <("${1/#\~/$HOME}" --complete "${words[@]:1:${#words[@]}-2}" "$word" 2>/dev/null)
    case $kind in
        words) compopt +o bashdefault +o default ;;
        list) compopt +o bashdefault +o default -o nospace ;;
        paths) compopt -o filenames ;;
        within) compopt +o bashdefault +o default -o filenames; [[ ${COMPREPLY[0]-} != */ ]] || compopt -o nospace ;;
        folders) compopt +o bashdefault +o default -o dirnames ;;
    esac
}
complete -o bashdefault -o default -F _asdf_mount asdf-mount
