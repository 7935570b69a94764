#pragma once

namespace constrain {

/// Whether a stored matrix enters a product as it is or transposed.
enum class transpose : bool { no, yes };

} // namespace constrain
