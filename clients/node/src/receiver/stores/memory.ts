import { checkOptions } from "../../options.js";
import { Turns, type LaneState, type OrderStore } from "../store.js";

/** Keeps positions in this process. `lanesMax`: beyond, the lane that was idle for longest is forgotten. */
export function memoryStore(options: { lanesMax?: number | undefined } = {}): OrderStore<undefined> {
  checkOptions(options, { lanesMax: true }, "memoryStore");
  const { lanesMax = 1_000_000 } = options;
  // A map keeps the order of insertion: the first lane is the one that was idle for longest.
  const lanes = new Map<string, LaneState & { at: number }>();
  const turns = new Turns();
  return {
    within: (lane, work) =>
      turns.run(lane, () =>
        work({
          last: lanes.get(lane),
          tx: undefined,
          async record(state) {
            lanes.delete(lane);
            lanes.set(lane, { ...state, at: Date.now() });
            if (lanes.size > lanesMax) lanes.delete(lanes.keys().next().value!);
          },
        }),
      ),
    async idleSince(timeMs, limit) {
      const idle = [];
      for (const [lane, state] of lanes) {
        if (state.at >= timeMs || idle.length >= limit) break;
        idle.push({ lane, state });
      }
      return idle;
    },
    async forget(lane, state) {
      const now = lanes.get(lane);
      if (now?.epoch === state.epoch && now.sequence === state.sequence) lanes.delete(lane);
    },
  };
}
