import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  buildModels,
  hasRecordings,
  listRecordings,
  type Recording,
} from '../support/recordings.ts'
import { type Replay, startReplay } from '../support/replay.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * A client of Anthropic's own API gets Claude's answer through the gateway unchanged: the same
 * blocks with all their fields, the same stop reason, and the message's other fields.
 */

const recordings = listRecordings('anthropic-messages')
/** The whole answers with content. */
const whole = recordings.filter(
  ({ mode, lines }) => mode === 'whole' && JSON.parse(lines.join('')).content.length > 0,
)

let replay: Replay
let scripted: Upstream
let server: LocalServer

beforeAll(async () => {
  if (recordings.length === 0) return
  replay = startReplay({ pieces: 1000 })
  scripted = await startUpstream()
  const model = ({ name }: Recording) => ({
    id: `anthropic/${name}`,
    endpoints: [{ provider: 'anthropic', model: name }],
  })
  const anthropic = {
    base_url: replay.base('anthropic-messages'),
    api_key: 'mock',
    fetches_urls: true,
  }
  const second = { ...anthropic, protocol: 'anthropic-messages', base_url: scripted.url }
  const claude = {
    id: 'anthropic/claude',
    endpoints: [{ provider: 'second', model: 'claude-sonnet-4-5' }],
  }
  server = await startLocalServer({
    providers: { anthropic, second },
    models: [...buildModels(recordings, model), claude],
  })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await replay?.close()
  await scripted?.close()
})

type Message = {
  content: Record<string, unknown>[]
  stop_reason: unknown
  stop_sequence: unknown
} & Record<string, unknown>
type Event = {
  type: string
  index: number
  message: Message
  content_block: Record<string, unknown>
  delta: Record<string, unknown>
}

async function ask({ name, mode }: Recording): Promise<string> {
  const json = {
    model: `anthropic/${name}`,
    max_tokens: 100,
    stream: mode === 'streamed',
    messages: [{ role: 'user', content: 'Hi' }],
  }
  const response = await server.fetch('/messages', { json })
  expect(response.status).toBe(200)
  return response.text()
}

const eventsIn = (body: string): Event[] =>
  body
    .split('\n')
    .filter(line => line.startsWith('data: '))
    .map(line => JSON.parse(line.slice(6)))

/** Assembles a streamed message as a client does. */
function assembled(events: Event[]): Message {
  const message = { content: [] } as unknown as Message
  const inputs: string[] = []
  for (const { type, index, message: begun, content_block, delta, ...besides } of events) {
    if (type === 'message_start') Object.assign(message, begun)
    if (type === 'content_block_start') message.content[index] = { ...content_block }
    if (type === 'content_block_delta') gain(message.content[index] ?? {}, delta, inputs, index)
    if (type === 'content_block_stop') close(message.content[index] ?? {}, inputs[index])
    if (type === 'message_delta') Object.assign(message, delta, besides)
  }
  return message
}

function gain(
  block: Record<string, unknown>,
  { type, ...delta }: Record<string, unknown>,
  inputs: string[],
  at: number,
): void {
  if (type === 'input_json_delta') inputs[at] = (inputs[at] ?? '') + delta.partial_json
  else if (type === 'citations_delta')
    block.citations = [...((block.citations as unknown[] | null) ?? []), delta.citation]
  else for (const [name, more] of Object.entries(delta)) block[name] = `${block[name] ?? ''}${more}`
}

function close(block: Record<string, unknown>, input: string | undefined): void {
  if (input) block.input = JSON.parse(input)
}

/** Returns what is compared. Fields that the gateway adds are not a difference. */
const shown = ({
  content,
  stop_reason,
  stop_sequence = null,
  container = null,
  context_management = null,
}: Message) => ({
  content: content.map(block =>
    block.type === 'text'
      ? { ...block, citations: block.citations ?? [] }
      : block.type === 'tool_use'
        ? { caller: { type: 'direct' }, ...block }
        : block,
  ),
  stop_reason,
  stop_sequence,
  container,
  context_management,
})

describe.skipIf(!hasRecordings)(
  'Claude through the Messages API (recordings from GATEWAY_SHARED)',
  () => {
    test.each(recordings.map(one => [one.name, one.mode, one] as const))(
      '%s, %s, loses nothing',
      async (_name, mode, recording) => {
        const body = await ask(recording)
        const given = mode === 'whole' ? (JSON.parse(body) as Message) : assembled(eventsIn(body))
        const said =
          mode === 'whole'
            ? (JSON.parse(recording.lines.join('')) as Message)
            : assembled(recording.lines.map(line => JSON.parse(line)))
        expect(shown(given)).toEqual(shown(said))
      },
    )

    test.each(whole.map(one => [one.name, one] as const))(
      '%s is sent back to Claude unchanged',
      async (_name, recording) => {
        const { content } = JSON.parse(recording.lines.join('')) as Message
        scripted.plan(json(ANSWER))
        const messages = [
          { role: 'user', content: 'Hi' },
          { role: 'assistant', content },
          { role: 'user', content: 'And then?' },
        ]
        const response = await server.fetch('/messages', {
          json: { model: 'anthropic/claude', max_tokens: 100, messages },
        })
        expect(response.status).toBe(200)
        const sent = scripted.hits.at(-1)?.json as { messages: Message[] } | undefined
        expect(blocksOf(sent?.messages[1]?.content)).toEqual(content.map(withoutDirectCaller))
      },
    )
  },
)

const ANSWER = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
}

/** Treats a single text and a single text block alike. */
const blocksOf = (content: unknown) =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

/** Removes the caller of tool calls by the model itself, which is the default. */
const withoutDirectCaller = ({ caller, ...block }: Record<string, unknown>) => {
  const isTaken = block.type === 'tool_use' && Bun.deepEquals(caller, { type: 'direct' })
  return caller === undefined || isTaken ? block : { ...block, caller }
}
