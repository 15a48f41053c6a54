
# Names of fields: in filters, and in the lists of --by and --columns.
_latscope_names() {
    latscope fields --names 2>/dev/null
}
# Names of files; `filenames` has bash put a slash behind folders and quote what needs it.
_latscope_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# Nothing is offered, not even files.
_latscope_nothing() {
    compopt +o default +o bashdefault 2>/dev/null
    COMPREPLY=()
}
# A filter that ends in an operator, or in one and the start of its value.
_latscope_value='[=<>][[:space:]]*[^[:space:]]*$|[[:space:]]i?(contains|startswith|endswith|glob|regex|between)[[:space:]]+[^[:space:]]*$|[[:space:]](in|pmatch|intersects)[[:space:]]*\([^)]*$'

_latscope_with_fields() {
    local word=$2 previous=$3 before last names is_value=
    # bash takes an equals sign for a word.
    if [[ $word == = ]]; then
        word= is_value=1
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]} is_value=1
    fi
    for ((last = 2; last < COMP_CWORD; last++)); do
        [[ ${COMP_WORDS[last]} == -- ]] || continue
        # The command line of another program.
        if declare -F _command_offset >/dev/null; then _command_offset $((last + 1)); fi
        return
    done
    case $previous in
        -s | --source)
            COMPREPLY=($(compgen -W '@SOURCES@' -- "$word"))
            return
            ;;
        --format)
            COMPREPLY=($(compgen -W '@FORMATS@' -- "$word"))
            return
            ;;
        -y | --y)
            # That of ping has no value.
            if [[ ${COMP_WORDS[1]} != ping ]]; then
                COMPREPLY=($(compgen -W '@QUANTITIES@' -- "$word"))
                return
            fi
            ;;
        --fail-if)
            _latscope_nothing
            return
            ;;
        @FIELDS@)
            last=${word##*,}
            before=${word%"$last"}
            COMPREPLY=($(compgen -P "$before" -W "$(_latscope_names)" -- "$last"))
            compopt -o nospace 2>/dev/null
            return
            ;;
    esac
    _latscope "$@"
    local -a static=()
    for before in "${COMPREPLY[@]}"; do
        case $before in
            '['* | '<'*) ;;
            # With nothing typed, files are meant rather than options.
            -*) [[ -z $word ]] || static+=("$before") ;;
            *) static+=("$before") ;;
        esac
    done
    COMPREPLY=("${static[@]}")
    # Behind the name of a lab, folders are meant.
    if [[ ${COMP_WORDS[1]} == lab && $COMP_CWORD -gt 2 && $word != -* && $previous != -* ]]; then
        COMPREPLY=()
        return
    fi
    if [[ ${COMP_WORDS[1]} == @(man|help) && $COMP_CWORD -eq 2 && $word != -* ]]; then
        COMPREPLY=($(compgen -W '@COMMANDS@' -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in @VERBS@) ;; *) [[ $previous == --filter ]] || return ;; esac
    if [[ -n $is_value && $previous != -* || $word =~ $_latscope_value ]]; then
        _latscope_nothing
        return
    fi
    case $previous in
        @FILTERS@) ;;
        @FLAGS@) [[ -z $is_value ]] || return ;;
        -*) [[ $word == *' '* ]] || return ;;
    esac
    [[ $COMP_CWORD -gt 1 && -n $word && $word != -* ]] || return
    # A filter in quotes is one word; its last name is completed.
    last=${word##*[[:space:]\(\!]}
    before=${word%"$last"}
    while IFS= read -r names; do
        COMPREPLY+=("$before$names")
    done < <(compgen -W "$(_latscope_names)" -- "$last")
}

complete -F _latscope_with_fields -o bashdefault -o default latscope
