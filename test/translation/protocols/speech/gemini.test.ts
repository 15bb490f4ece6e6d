import { expect, test } from 'bun:test'
import { geminiSpeech } from '../../../../src/translation/protocols/speech/gemini.ts'
import { buildEndpoint, buildSpeechCall } from '../../../support/call.ts'

const mimeType = 'audio/L16;codec=pcm;rate=24000'

test.each([
  ['an object that has no text', { data: { toString: 1 }, mimeType }],
  ['a number', { data: 7, mimeType }],
  ['nothing', { data: '', mimeType }],
  [
    'samples of another rate',
    { data: 'AQEBAQEBAQEBAQEBAQEBAQ==', mimeType: 'audio/L16;rate=8000' },
  ],
  ['another format', { data: 'AQEBAQEBAQEBAQEBAQEBAQ==', mimeType: 'audio/mpeg' }],
])('an answer with %s is the provider’s failure', (_, inlineData) => {
  const body = { candidates: [{ content: { parts: [{ inlineData }] } }] }
  expect(() => geminiSpeech.parseAnswer(body, buildSpeechCall(), buildEndpoint())).toThrow(
    'Provider returned error',
  )
})
