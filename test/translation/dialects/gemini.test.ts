import { expect, test } from 'bun:test'
import { gemini } from '../../../src/translation/dialects/gemini.ts'
import { createAnswer, finish, receipt, start } from '../../support/answer.ts'
import { buildTextCall } from '../../support/call.ts'

test.each([
  ['data:image/webp;base64,UklGRg==', { inlineData: { mimeType: 'image/webp', data: 'UklGRg==' } }],
  // The call is paid for: its client gets what the provider gave.
  [
    'data:image/webp;base64,Ukl...',
    { fileData: { mimeType: 'image/png', fileUri: 'data:image/webp;base64,Ukl...' } },
  ],
  [
    'https://a.example/b.png',
    { fileData: { mimeType: 'image/png', fileUri: 'https://a.example/b.png' } },
  ],
])('the picture %s of an answer is shown', async (url, shown) => {
  const answer = createAnswer<'text'>([start, { type: 'image', choice: 0, url }, finish], [receipt])
  const whole = await gemini.collectResponse(answer, buildTextCall(), {} as never)
  expect(whole).toMatchObject({ candidates: [{ content: { parts: [shown] } }] })
})
