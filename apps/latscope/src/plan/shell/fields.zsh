# Names of fields: in filters, and in the lists of --by and --columns.
_latscope_names() {
    local -a names=(${(f)"$(latscope fields --names 2>/dev/null)"})
    compadd "$@" -a names
}

# A filter in quotes is one word; its last name is completed.
_latscope_filter() {
    local -i separator=${words[(i)--]}
    if (( separator < CURRENT )); then
        # The command line of another program.
        shift $separator words
        (( CURRENT -= separator ))
        _normal
        return
    fi
    compset -P '*[[:space:](\!]'
    _latscope_names || _files
}

_latscope_field_list() {
    compset -P '*,'
    _latscope_names -S ''
}

