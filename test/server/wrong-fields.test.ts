import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { runCommand } from '../support/commands.ts'
import { type LocalServer, runGateway, startLocalServer } from '../support/server.ts'

let server: LocalServer
beforeAll(async () => {
  server = await startLocalServer()
})
afterAll(() => server[Symbol.asyncDispose]())

async function refuse(path: string, json: object): Promise<{ message: string; field: string }> {
  const response = await server.fetch(path, { json })
  const { error } = (await response.json()) as {
    error: { message: string; metadata?: { field: string } }
  }
  expect(response.status).toBe(400)
  return { message: error.message, field: error.metadata?.field ?? '' }
}

const ROLES = '"system" or "developer" or "user" or "assistant" or "tool" or "function"'
const PARTS = '"text" or "image_url" or "input_audio" or "file" or "video_url" or "input_video"'

describe('a chat message says which field is wrong', () => {
  test.each([
    [{ role: 'human', content: 'Hi' }, 'role', `${ROLES}, found a string`],
    [
      { role: 'assitant', content: 'Hi' },
      'role',
      `${ROLES}, found a string; did you mean "assistant"?`,
    ],
    [{ content: 'Hi' }, 'role', `${ROLES}, found nothing`],
    [{ role: 5, content: 'Hi' }, 'role', `${ROLES}, found 5`],
    [{ role: 'user' }, 'content', 'string or array of at most 100000 items, found nothing'],
    [
      { role: 'user', content: [{ type: 'image', image: 'x' }] },
      'content.0.type',
      `${PARTS}, found a string`,
    ],
    [{ role: 'user', content: [{ text: 'Hi' }] }, 'content.0.type', `${PARTS}, found nothing`],
    [
      { role: 'user', content: [{ type: 'image_url', image_url: {} }] },
      'content.0.image_url.url',
      'string of at least 1 character, found nothing',
    ],
    [
      { role: 'assistant', content: [{ type: 'txt', text: 'x' }] },
      'content.0.type',
      `${PARTS}, found a string; did you mean "text"?`,
    ],
    [
      { role: 'tool', content: 'x' },
      'tool_call_id',
      'string of at most 65536 characters, found nothing',
    ],
  ])('%j', async (message, field, expected) => {
    const path = `messages.1.${field}`
    const messages = [{ role: 'user', content: 'Hi' }, message]
    expect(await refuse('/chat/completions', { messages })).toEqual({
      message: `${path}: expected ${expected}`,
      field: path,
    })
  })
})

test('a message of Anthropic’s format does too', async () => {
  const ask = (message: object) =>
    refuse('/messages', { model: 'sandbox/echo', max_tokens: 9, messages: [message] })
  expect((await ask({ role: 'usr', content: 'Hi' })).message).toContain('did you mean "user"?')
  expect((await ask({ content: 'Hi' })).message).toStartWith('messages.0.role: expected')
  expect((await ask({ role: 'user', content: [{ type: 'text' }] })).message).toStartWith(
    'messages.0.content.0.text: expected string',
  )
})

test.each([
  [['keys', 'create', '--name', ''], '--name: expected string of'],
  [['keys', 'create', '--name', 'x', '--limit-reset', 'weakly'], '--limit-reset: expected'],
  [['keys', 'create', '--name', 'x', '--limit-reset', 'weakly'], 'did you mean "weekly"?'],
  [
    ['keys', 'create', '--name', 'x', '--expires-at', '2020-01-01T00:00:00Z'],
    'gateway: --expires-at',
  ],
])('the terminal speaks of its flags: %j', async (args, message) => {
  const { code, stderr } = await runCommand([...args, '--data', server.data])
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
})

test('a wrong config has all its mistakes, each with its place', async () => {
  const { code, stderr } = await runGateway(['config', 'check', '--config', '/dev/stdin'], {
    stdin: 'server:\n  prot: 80\ntimeout: {}\nrouting:\n  choice: wieghted\n',
  })
  expect(code).toBe(2)
  expect(stderr.split('\n')).toEqual([
    'gateway: /dev/stdin:3:1: timeout: expected no such field, found an object; did you mean "timeouts"?',
    'gateway: /dev/stdin:2:3: server.prot: expected no such field, found a number; did you mean "port"?',
    'gateway: /dev/stdin:5:3: routing.choice: expected "weighted" or "listed", found a string; did you mean "weighted"?',
    '',
  ])
})
