import { unreadable } from '../failure.ts'
import type { Protocol } from '../protocol.ts'

/** What the protocols for vectors share: nothing has a name there, and what is streamed is no answer. */
export const whole = {
  framing: 'sse',
  takesNames: true,
  reader: () => {
    throw unreadable()
  },
} satisfies Partial<Protocol<'embedding'>>
