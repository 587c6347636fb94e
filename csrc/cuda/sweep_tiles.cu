// Histograms of scores as they are.
#include "sweep_tile_kernels.h"

namespace valor {

bool launch_tiles(const TileTask& task, void* stream, int32_t* status) {
  return launch_reading<AsTheyAre>(task, stream, status);
}

}  // namespace valor
