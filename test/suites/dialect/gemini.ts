import { isObject, type Json, readObject, readObjects, readString } from '../../../src/base/json.ts'
import type { Reading, RefusalReading, Sample } from '../dialect.ts'

/** The sample of the Gemini API. The path has the model, and whether the answer streams. */
export const sample: Sample = {
  body: { model: 'acme/small', contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  misfits: [
    [{ contents: [] }, 'contents'],
    [{ contents: 7 }, 'contents'],
    [{ tools: {} }, 'tools'],
  ],
  readWhole: answer => read([answer]),
  readEvents: frames => read(frames.map(({ data }) => JSON.parse(data))),
  readRefusal,
}

function read(answers: Json[]): Reading {
  const candidates = answers.flatMap(({ candidates }) => readObjects(candidates))
  const parts = candidates.flatMap(({ content }) =>
    readObjects(isObject(content) ? content.parts : []),
  )
  const usage = answers.map(({ usageMetadata }) => usageMetadata).findLast(isObject)
  const finish = candidates.map(one => readString(one.finishReason)).findLast(one => one !== null)
  const failed = answers.find(({ error }) => isObject(error))
  return {
    text: parts.map(({ text }) => readString(text) ?? '').join(''),
    finish: finish ?? null,
    tokens: usage
      ? { input: Number(usage.promptTokenCount), output: Number(usage.candidatesTokenCount) }
      : null,
    failure: failed ? readRefusal(failed).message : null,
    isFinished: finish != null && failed === undefined,
  }
}

function readRefusal(refusal: Json): RefusalReading {
  const { message, details } = readObject(refusal, 'error')
  const [info = {}] = readObjects(details)
  const { request_id } = readObject(info, 'metadata')
  return {
    type: readString(info.reason)?.toLowerCase() ?? null,
    message: readString(message) ?? '',
    id: readString(request_id),
  }
}
