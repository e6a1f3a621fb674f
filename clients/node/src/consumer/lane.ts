import { LeaseSignal } from "../lease-signal.js";

/** A lane that a consumer holds, under one lease. */
export class HeldLane extends LeaseSignal {
  isExtending = false;
  /** When the lease last certainly began to last for its whole time. */
  extendedAt = performance.now();
  /** Its last message: whoever names it means the whole lane. */
  lastToken = "";
  /** How many of its messages are not accepted or refused. */
  left = 0;

  constructor() {
    super("another consumer may get the message");
  }
}
