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
    # Behind an operator stands a value.
    [[ ${words[CURRENT-1]} == (=|==|!=) || $PREFIX =~ $_latscope_value ]] && return 1
    compset -P '*[[:space:](\!]'
    _latscope_names || _files
}
# A filter that ends in an operator, or in one and the start of its value.
typeset -g _latscope_value='[=<>][[:space:]]*[^[:space:]]*$|[[:space:]]i?(contains|startswith|endswith|glob|regex|between)[[:space:]]+[^[:space:]]*$|[[:space:]](in|pmatch|intersects)[[:space:]]*[(][^)]*$'

_latscope_field_list() {
    compset -P '*,'
    _latscope_names -S ''
}

# The runs of a side: files behind its name.
_latscope_runs() {
    compset -P '*[=,]' && _files
}

