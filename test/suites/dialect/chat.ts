import { isObject, type Json, readObject, readObjects, readString } from '../../../src/base/json.ts'
import type { Frame } from '../../../src/translation/protocols/protocol.ts'
import type { Reading, RefusalReading, Sample } from '../dialect.ts'

/** The sample of the chat API. */
export const sample: Sample = {
  body: { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] },
  misfits: [
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages.0.content'],
    [{ temperature: 3 }, 'temperature'],
  ],
  readWhole,
  readEvents,
  readRefusal,
}

/** Reads the first choice of a chat or text completion. */
export function readWhole(answer: Json): Reading {
  const [choice = {}] = readObjects(answer.choices)
  const finish = readString(choice.finish_reason)
  return {
    text: readString(choice.text) ?? readString(readObject(choice, 'message').content) ?? '',
    finish,
    tokens: readTokens(answer),
    failure: readString(readObject(choice, 'error').message),
    isFinished: finish !== null && finish !== 'error',
  }
}

export function readEvents(frames: Frame[]): Reading {
  const chunks = frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data) as Json]))
  const choices = chunks.flatMap(chunk => readObjects(chunk.choices))
  const finish = readString(choices.find(choice => choice.finish_reason !== null)?.finish_reason)
  const isDone = frames.at(-1)?.data === '[DONE]'
  return {
    text: choices.map(readDelta).join(''),
    finish,
    tokens: chunks.map(readTokens).findLast(tokens => tokens !== null) ?? null,
    failure: readString(chunks.map(chunk => readObject(chunk, 'error').message).find(Boolean)),
    isFinished: isDone && finish !== null && finish !== 'error',
  }
}

const readDelta = (choice: Json): string =>
  readString(choice.text) ?? readString(readObject(choice, 'delta').content) ?? ''

/** Reads the usual error envelope. */
export function readRefusal(refusal: Json): RefusalReading {
  const error = readObject(refusal, 'error')
  const { error_type, request_id } = readObject(error, 'metadata')
  return {
    type: readString(error_type),
    message: readString(error.message) ?? '',
    id: readString(request_id),
  }
}

function readTokens({ usage }: Json): Reading['tokens'] {
  if (!isObject(usage)) return null
  return { input: Number(usage.prompt_tokens), output: Number(usage.completion_tokens) }
}
