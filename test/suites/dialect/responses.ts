import { isObject, type Json, readObject, readObjects, readString } from '../../../src/base/json.ts'
import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import type { Reading, Sample } from '../dialect.ts'
import { readRefusal } from './chat.ts'

/** The sample of the Responses API. */
export const sample: Sample = {
  body: { model: 'acme/small', input: 'Hi' },
  misfits: [
    [{ input: 7 }, 'input'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ temperature: 3 }, 'temperature'],
    [{ metadata: { a: 7 } }, 'metadata.a'],
  ],
  readWhole: readResponse,
  readEvents,
  readRefusal,
}

function readResponse(response: Json): Reading {
  return {
    text: readObjects(response.output)
      .flatMap(({ content }) => readObjects(content))
      .map(({ text }) => readString(text) ?? '')
      .join(''),
    finish: readString(response.status),
    tokens: readTokens(response),
    failure: readString(readObject(response, 'error').message),
    isFinished: response.status === 'completed',
  }
}

function readEvents(frames: Frame[]): Reading {
  const events = frames
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => JSON.parse(data) as Json)
  const last = readResponse(readObject(events.at(-1) ?? {}, 'response'))
  const hasEnded = frames.at(-1)?.data === '[DONE]'
  return {
    ...last,
    text: events
      .flatMap(({ type, delta }) => (type === 'response.output_text.delta' ? [delta] : []))
      .join(''),
    isFinished: hasEnded && last.isFinished,
  }
}

function readTokens({ usage }: Json): Reading['tokens'] {
  if (!isObject(usage)) return null
  return { input: Number(usage.input_tokens), output: Number(usage.output_tokens) }
}
