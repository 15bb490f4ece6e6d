import { describe, expect, test } from 'bun:test'
import type { Json } from '../../../../src/base/json.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { collectResponse } from '../../../../src/translation/dialects/responses/response.ts'
import { streamResponseEvents } from '../../../../src/translation/dialects/responses.ts'
import type { Frame } from '../../../../src/translation/protocols/protocol.ts'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { createAnswer, receipt } from '../../../support/answer.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import {
  hasRecordings,
  listRecordings,
  type Recording,
  TEXT_PROTOCOLS,
} from '../../../support/recordings.ts'
import { assembleResponse, parseEvents } from '../../../support/response-events.ts'

/*
 * Every recorded answer of a provider as a response: the last event of the stream holds what the
 * whole answer is, and the events before it make the same.
 */

const call = buildTextCall({ dialect: 'responses' })
const BODY = { input: 'Hi' }

/** Reads a recording; undefined for the answer of a failed request. */
function readRecording(recording: Recording): TextPart[][] | undefined {
  const protocol = protocols.text[recording.protocol]
  if (!protocol) throw new Error(`There is no protocol ${recording.protocol}`)
  const provider = buildProvider({ slug: recording.package })
  const endpoint = buildEndpoint({ provider, protocol: recording.protocol })
  try {
    if (recording.mode === 'whole')
      return [protocol.parseAnswer(JSON.parse(recording.lines.join('')), call, endpoint)]
    const reader = protocol.createReader(call, endpoint)
    return [...framesOf(recording).map(frame => reader.read(frame)), reader.end?.() ?? []]
  } catch {
    return undefined
  }
}

const framesOf = ({ protocol, lines }: Recording): Frame[] =>
  protocol === 'bedrock-converse'
    ? lines.flatMap(line =>
        Object.entries(JSON.parse(line)).map(([event, payload]) => ({
          event,
          data: JSON.stringify(payload),
        })),
      )
    : lines.map(data => ({ event: null, data }))

async function stream(batches: TextPart[][]): Promise<Json> {
  let wire = ''
  const events = streamResponseEvents(createAnswer(...batches), call, BODY)
  for (let step = await events.next(); !step.done; step = await events.next()) wire += step.value
  return assembleResponse(parseEvents(wire))
}

const recordings = listRecordings(...TEXT_PROTOCOLS)

describe.skipIf(!hasRecordings)('a recorded answer (recordings from GATEWAY_SHARED)', () => {
  test.each(recordings.map(one => [one.protocol, one.name, one.mode, one] as const))(
    '%s, %s, %s, is the same response whole and streamed',
    async (_protocol, _name, _mode, recording) => {
      const read = readRecording(recording)
      if (!read) return
      const batches = [...read, [receipt]]
      const whole = await collectResponse(createAnswer(...batches), call, BODY)
      expect(await stream(batches)).toEqual(JSON.parse(JSON.stringify(whole)))
    },
  )

  test('is readable in nearly every case', () => {
    const readable = recordings.filter(recording => readRecording(recording) !== undefined)
    expect(readable.length).toBeGreaterThan(recordings.length * 0.9)
  })
})
