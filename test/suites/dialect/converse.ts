import { isObject, type Json, readObject, readObjects, readString } from '../../../src/base/json.ts'
import { AwsEventStreamScanner } from '../../../src/network/part-stream.ts'
import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import type { Reading, RefusalReading, Sample } from '../dialect.ts'

/** The sample of Bedrock’s Converse. The path has the model, and whether the answer streams. */
export const sample: Sample = {
  body: { model: 'acme/small', messages: [{ role: 'user', content: [{ text: 'Hi' }] }] },
  misfits: [
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: 'Hi' }] }, 'messages.0.content'],
    [{ inferenceConfig: { maxTokens: 0 } }, 'inferenceConfig.maxTokens'],
    [{ inferenceConfig: { maxToken: 5 } }, 'inferenceConfig.maxToken'],
  ],
  namesUnknown: true,
  readWhole: ({ output, stopReason, usage }) => ({
    text: readObjects(readObject(readObject({ output }, 'output'), 'message').content)
      .map(block => readString(block.text) ?? '')
      .join(''),
    finish: readString(stopReason),
    tokens: readTokens(usage),
    failure: null,
    isFinished: readString(stopReason) !== null,
  }),
  readEvents,
  splitFrames,
  readRefusal,
}

/** Splits a stream of frames, each character of which is a byte. */
export function splitFrames(wire: string, hasEnded: boolean): Frame[] {
  const scanner = new AwsEventStreamScanner()
  return [...scanner.feed(Buffer.from(wire, 'latin1')), ...(hasEnded ? scanner.end() : [])]
}

function readEvents(frames: Frame[]): Reading {
  const of = (event: string) =>
    frames.filter(frame => frame.event === event).map(({ data }) => JSON.parse(data) as Json)
  const [stop = {}] = of('messageStop')
  const metadata = of('metadata')
  return {
    text: of('contentBlockDelta')
      .map(event => readString(readObject(event, 'delta').text) ?? '')
      .join(''),
    finish: readString(stop.stopReason),
    tokens: readTokens(metadata[0]?.usage),
    failure: readFailure(frames),
    isFinished: metadata.length === 1,
  }
}

/** Reads the message of the exception that a stream ends with; null if there is none. */
export function readFailure(frames: Frame[]): string | null {
  const failed = frames.find(({ event }) => event?.endsWith('Exception'))
  return failed ? readString(JSON.parse(failed.data).message) : null
}

/** Reads a refusal of Bedrock’s. */
export function readRefusal({ metadata, message, request_id }: Json): RefusalReading {
  return {
    type: readString(readObject({ metadata }, 'metadata').error_type),
    message: readString(message) ?? '',
    id: readString(request_id),
  }
}

const readTokens = (usage: unknown): Reading['tokens'] =>
  isObject(usage) ? { input: Number(usage.inputTokens), output: Number(usage.outputTokens) } : null
