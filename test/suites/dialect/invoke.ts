import { readString } from '../../../src/base/json.ts'
import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import type { Sample } from '../dialect.ts'
import { readFailure, readRefusal, splitFrames } from './converse.ts'
import { sample as messages } from './messages.ts'

/** The sample of Anthropic’s bodies at Bedrock: events of the Messages API, each in a frame. */
export const sample: Sample = {
  ...messages,
  readEvents: frames => ({
    ...messages.readWhole({}),
    ...messages.readEvents?.(frames.filter(({ event }) => event === 'chunk')),
    failure: readFailure(frames),
  }),
  splitFrames: (wire, hasEnded) => splitFrames(wire, hasEnded).map(openChunk),
  readRefusal,
}

function openChunk({ event, data }: Frame): Frame {
  const bytes = readString(JSON.parse(data).bytes)
  return { event, data: bytes === null ? data : Buffer.from(bytes, 'base64').toString() }
}
