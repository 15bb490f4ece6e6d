import { beforeAll, describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { buildDocx, buildParagraph, buildPdf } from '../support/documents-of-office.ts'
import { measureBestLoopUse } from '../support/event-loop.ts'
import { type LoopWorld, openLoopWorld } from '../support/loop-world.ts'
import { decodeOutgoing } from '../support/outgoing.ts'

/*
 * Issue: "the loop and the memory". One request must not make everyone else wait. Each of these did
 * for one to thirteen seconds. The bound is 250 ms; machines of tests are slow, so twice that.
 */

const LONGEST = 500
const MIB = 1024 * 1024
const messages = [{ role: 'user', content: 'Hi' }]

let world: LoopWorld

beforeAll(async () => {
  world = await openLoopWorld()
  // What is read and compiled once is not measured.
  await world.send('/chat/completions', { model: 'sandbox/echo', messages })
  await world.send('/models')
})

/** Sends a body that is written before the measurement begins. */
async function measureSending(path: string, body: unknown, model?: string) {
  const text = JSON.stringify(model === undefined ? body : { model, ...(body as object) })
  return measureBestLoopUse(LONGEST, () => world.send(path, text))
}

describe('nobody waits for', () => {
  test('40,000 texts to the sandbox, which are refused by name', async () => {
    const input = Array.from({ length: 40_000 }, (_, i) => `word ${i}`)
    const { result, longest } = await measureSending('/embeddings', {
      model: 'sandbox/embed',
      input,
      dimensions: 1024,
    })
    expect(result).toMatchObject({ status: 400, text: expect.stringContaining('input') })
    expect(longest).toBeLessThan(LONGEST)
  })

  test('as many vectors as the sandbox computes', async () => {
    const input = Array.from({ length: 256 }, () => 'some words and so on '.repeat(3))
    const { result, longest } = await measureSending('/embeddings', {
      model: 'sandbox/embed',
      input,
      dimensions: 1024,
    })
    expect(result.status).toBe(200)
    expect(longest).toBeLessThan(LONGEST)
  })

  test('a sandbox answer of a thousand properties to a message of 500 KB', async () => {
    const names = Array.from({ length: 1_000 }, (_, i) => [`p${i}`, { type: 'string' }])
    const { result, longest } = await measureSending('/chat/completions', {
      model: 'sandbox/echo',
      messages: [{ role: 'user', content: 'a'.repeat(500_000) }],
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'many',
          schema: { type: 'object', properties: Object.fromEntries(names) },
        },
      },
    })
    expect(result.status).toBe(200)
    const { choices } = JSON.parse(result.text)
    expect(Object.keys(JSON.parse(choices[0].message.content))).toHaveLength(1_000)
    expect(longest).toBeLessThan(LONGEST)
  })

  test.each([false, true])('a sandbox echo of 8 MB, streamed: %p', async stream => {
    const { result, longest } = await measureSending('/chat/completions', {
      model: 'sandbox/echo',
      stream,
      messages: [{ role: 'user', content: 'long words '.repeat(MIB) }],
    })
    expect(result).toMatchObject({ status: 200, text: expect.stringContaining('"length"') })
    expect(longest).toBeLessThan(LONGEST)
  })

  test.each<[name: string, document: () => Uint8Array]>([
    ['a PDF that inflates to 80 MB', () => buildPdf(Buffer.alloc(80 * MIB, 0x20))],
    ['a DOCX of 20 MB of text', () => buildDocx(buildParagraph('words '.repeat(3 * MIB)))],
    ['a DOCX of a million paragraphs', () => buildDocx('<w:p/>'.repeat(MIB))],
  ])('%s, which is read as text', async (_, document) => {
    const file_data = `data:application/pdf;base64,${Buffer.from(document()).toString('base64')}`
    const { result, longest } = await measureSending('/chat/completions', {
      model: 'sandbox/echo',
      messages: [{ role: 'user', content: [{ type: 'file', file: { file_data } }] }],
      plugins: [{ id: 'file-parser', pdf: { engine: 'pdf-text' } }],
    })
    // On a busy machine reading may take longer than it may.
    expect([200, 400]).toContain(result.status)
    expect(longest).toBeLessThan(LONGEST)
  })

  test('an answer of 1 MB that is not quite JSON, and takes long to mend', async () => {
    const { result, longest } = await measureSending('/chat/completions', {
      model: 'sandbox/echo',
      messages: [{ role: 'user', content: `{${'"a" '.repeat(MIB / 4)}` }],
      response_format: { type: 'json_object' },
      plugins: [{ id: 'response-healing' }],
    })
    expect(result.status).toBe(200)
    expect(longest).toBeLessThan(LONGEST)
  })

  test('a conversation of 70,000 messages that is cut for a small context', async () => {
    const turns = new Array(70_000).fill({ role: 'user', content: 'some words' })
    const { longest } = await measureSending('/chat/completions', {
      model: 'acme/openai-chat',
      messages: turns,
      max_tokens: 19_900_000,
      plugins: [{ id: 'context-compression' }],
    })
    expect(longest).toBeLessThan(LONGEST)
  })

  test('twenty anonymous GET /models?q= at once, long or as long as allowed', async () => {
    for (const [length, status] of [
      [14_000, 400],
      [1_000, 200],
    ] as const) {
      const q = encodeURIComponent('a '.repeat(length / 2))
      const { result, longest } = await measureBestLoopUse(LONGEST, () =>
        Promise.all(
          Array.from({ length: 20 }, () => world.send(`/models?q=${q}`, undefined, { key: null })),
        ),
      )
      expect(result.map(answer => answer.status)).toEqual(new Array(20).fill(status))
      expect(longest).toBeLessThan(LONGEST)
    }
  })

  test('twenty anonymous requests at once, of any kind that needs no key', async () => {
    const app = createApp(world.gateway)
    const open = listDescribedRoutes(app).filter(({ operation }) => operation.open)
    expect(open.length).toBeGreaterThan(10)
    for (const { method, path } of open) {
      const url = `http://localhost${path.replace(':author', 'openai').replace(':slug', 'gpt-5')}`
      const ask = async () =>
        (await app.handle(new Request(url, { method: method.toUpperCase() }))).text()
      await ask()
      const { longest } = await measureBestLoopUse(LONGEST, () =>
        Promise.all(Array.from({ length: 20 }, ask)),
      )
      expect([path, longest < LONGEST]).toEqual([path, true])
    }
  })

  test.each(['order', 'only', 'ignore'])(
    'provider.%s of 256 names, of 100 KB or as long as allowed',
    async field => {
      for (const [length, expected] of [
        [100_000, `provider.${field}.0: expected string of at most 1024 characters`],
        [1_024, ''],
      ] as const) {
        const names = Array.from({ length: 256 }, (_, i) => `${i}/`.padEnd(length, 'x/'))
        const { result, longest } = await measureSending('/chat/completions', {
          model: 'acme/openai-chat',
          messages,
          provider: { [field]: names },
        })
        expect(result.text).toContain(expected)
        expect(longest).toBeLessThan(LONGEST)
      }
    },
  )

  test.each(['acme/alternating', 'acme/openai-chat', 'acme/anthropic-messages', 'acme/gemini'])(
    'tens of thousands of turns of one role to %s',
    async model => {
      for (const role of ['system', 'user', 'assistant']) {
        const turns = new Array(70_000).fill({ role, content: 'x' })
        const { longest } = await measureSending(
          '/chat/completions',
          { messages: [...turns, ...messages] },
          model,
        )
        expect(longest).toBeLessThan(LONGEST)
      }
    },
  )
})

test('turns of one role become one message, with the fields and the content of all', async () => {
  const sent: unknown[] = []
  const { gateway, send } = await openLoopWorld()
  const { send: sendOut } = gateway.egress
  gateway.egress.send = (outgoing, cancellation) => {
    sent.push(...JSON.parse(decodeOutgoing(outgoing.body)).messages)
    return sendOut(outgoing, cancellation)
  }
  await send('/chat/completions', {
    model: 'acme/alternating',
    messages: [
      { role: 'system', content: 'One', name: 'a' },
      { role: 'system', content: 'Two', x: 1 },
      { role: 'user', content: 'Hi' },
      { role: 'user', content: 'Ho' },
    ],
  })
  expect(sent).toEqual([
    {
      role: 'system',
      x: 1,
      content: [
        { type: 'text', text: 'a: One' },
        { type: 'text', text: 'Two' },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Hi' },
        { type: 'text', text: 'Ho' },
      ],
    },
  ])
})

describe('nobody waits for an answer', () => {
  const ask = { model: 'acme/openai-chat', messages, modalities: ['text', 'audio'] }
  const event = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
  const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`

  // The client did not ask for a stream, so all of the pieces are collected.
  async function collect(events: string[]) {
    const bytes = new TextEncoder().encode(events.join('') + end)
    const { send } = await openLoopWorld(
      () => new Response(bytes, { headers: { 'content-type': 'text/event-stream' } }),
    )
    const { result, longest } = await measureBestLoopUse(2 * LONGEST, () =>
      send('/chat/completions', ask),
    )
    expect(result.status).toBe(200)
    return { choice: JSON.parse(result.text).choices[0], longest }
  }

  test('of sound in small pieces, each with its own padding', async () => {
    const piece = Buffer.from('sound!!').toString('base64')
    const pieces = new Array(40_000).fill(event({ audio: { id: 'a', data: piece } }))
    const { choice, longest } = await collect(pieces)
    const sound = Buffer.from(choice.message.audio.data, 'base64').toString()
    expect(sound).toBe('sound!!'.repeat(40_000))
    expect(longest).toBeLessThan(2 * LONGEST)
  })
})
