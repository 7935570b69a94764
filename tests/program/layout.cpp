#include <constrain/program/layout.hpp>
#include <constrain/program/op_info.hpp>
#include <doctest/doctest.h>

using namespace constrain;

namespace {

constexpr unsigned all = ~0u;

// Every pattern, for inputs or outputs; the last one also applies to all further operands.
constexpr auto by_elements = parse_layouts("*, #, - -> *");
static_assert(by_elements.valid && by_elements.by_elements());
static_assert(by_elements.inputs.elements == 0b001 && by_elements.inputs.unread == 0b010 &&
              by_elements.inputs.rows == 0);
static_assert(by_elements.outputs.elements == all && by_elements.outputs.rows == 0);

constexpr auto by_rows = parse_layouts("..., -, - -> ..., -");
static_assert(by_rows.valid && !by_rows.by_elements());
static_assert(by_rows.inputs.rows == 0b1 && by_rows.inputs.elements == 0 && by_rows.outputs.rows == 0b1);

constexpr auto to_the_end = parse_layouts("-, * -> *");
static_assert(to_the_end.valid && to_the_end.inputs.elements == (all & ~1u));
static_assert(parse_layouts("-, ... -> -, ...").outputs.rows == (all & ~1u));
static_assert(parse_layouts("# -> -").inputs.unread == all);

// An op may work on rows of one input and on elements of another.
constexpr auto both = parse_layouts("*, ... -> *");
static_assert(both.valid && both.inputs.elements == 0b1 && both.inputs.rows == (all & ~1u));

// Spaces do not count.
static_assert(parse_layouts("*,-->*").valid == false); // `--` is no pattern
static_assert(parse_layouts("  * ,  -   ->  *  ").inputs.elements == 0b1);
static_assert(parse_layouts("*,- ->*").valid && parse_layouts("*,- ->*").outputs.elements == all);

// An op that declares nothing has `-` everywhere.
static_assert(layout_rule{}.valid && !layout_rule{}.by_elements() && layout_rule{}.inputs.unread == 0);

// Letters name the innermost dimensions; they come alone, or after `...` or `-`.
constexpr auto named = parse_layouts("...i, oi, +o -> ...o");
static_assert(named.valid && named.inputs.rows == 0b1 && named.outputs.rows == all);
static_assert(named.inputs.inner_of(0) == 'i' && named.inputs.outer_of(0) == 0);
static_assert(named.inputs.inner_of(1) == 'i' && named.inputs.outer_of(1) == 'o');
static_assert(named.inputs.inner_of(2) == 'o' && named.inputs.added == 2 && named.outputs.inner_of(0) == 'o');
static_assert(named.outputs.inner_of(1) == 0 && named.inputs.inner_of(7) == 0); // not of operands behind the last
static_assert(parse_layouts("-h -> -h, -").valid && parse_layouts("-h -> -h, -").outputs.rows == 0);
static_assert(parse_layouts("-f -> -f").inputs.added == -1);

constexpr bool is_rule(std::string_view text) { return parse_layouts(text).valid; }
static_assert(!is_rule("abc -> -") && !is_rule("+ -> -") && !is_rule("-+a -> a") && !is_rule("A -> A"));
static_assert(!is_rule("") && !is_rule("*") && !is_rule("->") && !is_rule("* ->") && !is_rule("-> *"));
static_assert(!is_rule("*, -> *") && !is_rule(", * -> *") && !is_rule("*, , * -> *") && !is_rule("* -> *,"));
static_assert(!is_rule("* * -> *") && !is_rule("* -> * -> *") && !is_rule("* - > *") && !is_rule("* => *"));
static_assert(!is_rule("** -> *") && !is_rule(".. -> -") && !is_rule(".... -> -") && is_rule("x -> *"));
static_assert(!is_rule("* -> *, -") && !is_rule("* -> -, *")); // all outputs by element, or none
static_assert(is_rule("-i, +o -> -o") && !is_rule("+i, -o -> -o") && !is_rule("-o, +o, - -> -o")); // the last input
static_assert(!is_rule("-o -> +o") && !is_rule("-o, +o -> -o, +o"));                               // no output
static_assert(!is_rule("- -> #") && !is_rule("- -> -, #")); // the type of an output is not read

} // namespace
