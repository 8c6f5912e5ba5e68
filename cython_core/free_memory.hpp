// Memory that was freed, back to the system: glibc keeps most of what many small blocks took, for others like them.
#pragma once

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace hf_scaffold {

// Takes a millisecond or so for each few hundred megabytes.
inline void return_free_memory() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

}  // namespace hf_scaffold
