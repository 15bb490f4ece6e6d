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

const inlineData = { data: Buffer.alloc(64, 1).toString('base64'), mimeType }
const content = { parts: [{ inlineData }] }

test.each<[string, object, string]>([
  ['is cut off', { candidates: [{ content, finishReason: 'MAX_TOKENS' }] }, 'provider_unavailable'],
  [
    'ends without a reason',
    { candidates: [{ content, finishReason: 'OTHER' }] },
    'provider_unavailable',
  ],
  [
    'is refused',
    { candidates: [{ finishReason: 'PROHIBITED_CONTENT' }] },
    'content_policy_violation',
  ],
  ['is blocked', { promptFeedback: { blockReason: 'SAFETY' } }, 'content_policy_violation'],
])('a sound that %s is none', (_, body, type) => {
  const read = () => geminiSpeech.parseAnswer(body, buildSpeechCall(), buildEndpoint())
  expect(read).toThrow(expect.objectContaining({ type }))
})
