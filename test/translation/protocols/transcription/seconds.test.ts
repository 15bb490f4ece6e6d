import { expect, test } from 'bun:test'
import { openaiTranscription } from '../../../../src/translation/protocols/transcription/openai.ts'
import { buildEndpoint, buildTranscriptionCall } from '../../../support/call.ts'

const read = (duration: unknown) => {
  const body = { text: 'Hi', duration }
  const parts = openaiTranscription.parseAnswer(body, buildTranscriptionCall(), buildEndpoint())
  return parts.flatMap(part => (part.type === 'transcript' ? [part.duration] : []))[0]
}

// OpenAI has written it as a text, and servers like it still do.
test.each([
  [8.47, 8.47],
  ['8.470000267028809', 8.470000267028809],
  ['0', 0],
  ['-1', undefined],
  ['1e3', undefined],
  ['NaN', undefined],
  [Number.NaN, undefined],
  [null, undefined],
])('a length of %p is %p seconds', (given, seconds) => {
  expect(read(given)).toBe(seconds as number)
})
