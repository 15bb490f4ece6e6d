import type { Frame, Framing } from '../../src/translation/protocols/protocol.ts'
import { awsEvent } from '../../test/support/aws-event-stream.ts'

/** The content type of a stream with these frames. */
export const CONTENT_TYPE: Record<Framing, string> = {
  sse: 'text/event-stream',
  'aws-event-stream': 'application/vnd.amazon.eventstream',
}

/** Encodes frames for the wire. */
export const encodeFrames = (frames: Frame[], framing: Framing): Uint8Array =>
  framing === 'sse'
    ? Buffer.from(frames.map(renderSse).join(''))
    : Buffer.concat(frames.map(({ event, data }) => awsEvent(event ?? '', data)))

const renderSse = ({ event, data }: Frame) =>
  `${event === null ? '' : `event: ${event}\n`}data: ${data}\n\n`
