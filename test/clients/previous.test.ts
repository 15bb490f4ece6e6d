import { afterAll, beforeAll, expect, test } from 'bun:test'
import { streamText } from 'previous-ai'
import { createAnthropic } from 'previous-ai-sdk-anthropic'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * What the previous major of a client stumbles over, and the latest does not. `bun run clients` runs
 * all tests of this folder with both.
 */

let server: LocalServer

beforeAll(async () => {
  server = await startLocalServer()
})

afterAll(() => server[Symbol.asyncDispose]())

test('@ai-sdk/anthropic 3 reads a text without citations, whole and streamed', async () => {
  const anthropic = createAnthropic({ baseURL: server.base, apiKey: server.inference_key })
  const errors: unknown[] = []
  const answer = streamText({
    model: anthropic('sandbox/echo'),
    prompt: 'Hello there',
    onError: ({ error }) => void errors.push(error),
  })
  expect([await answer.text, errors]).toEqual(['Hello there', []])
  const model = anthropic('sandbox/echo')
  const content = [{ type: 'text' as const, text: 'Hello there' }]
  const whole = await model.doGenerate({ prompt: [{ role: 'user', content }] })
  expect(whole.content).toMatchObject([{ type: 'text', text: 'Hello there' }])
})
