import { afterAll, beforeAll, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { isObject, type Json, readObject } from '../../src/base/json.ts'
import {
  buildModels,
  hasRecordings,
  listRecordings,
  type Recording,
} from '../support/recordings.ts'
import { type Replay, startReplay } from '../support/replay.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * Anthropic's own client reads the same from an answer of Claude's, directly and through the
 * gateway: every block with every field, the stop reason, and the usage.
 */

const PROTOCOL = 'anthropic-messages'
const recordings = listRecordings(PROTOCOL)

let replay: Replay
let server: LocalServer

beforeAll(async () => {
  if (!hasRecordings) return
  replay = startReplay()
  const providers = { anthropic: { base_url: `${replay.base(PROTOCOL)}/v1`, api_key: 'mock' } }
  server = await startLocalServer({ providers, models: buildModels(recordings, modelOf) })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await replay?.close()
})

const modelOf = ({ name }: Recording) => ({
  id: `claude/${name}`,
  endpoints: [{ provider: 'anthropic', model: name }],
})

if (!hasRecordings) test.skip('the recordings are not on this machine (GATEWAY_SHARED)', () => {})

test.each(recordings.map(one => [one.name, one.mode, one] as const))(
  '%s, %s, reads the same as without the gateway',
  async (name, _, recording) => {
    const direct = await read(replay.base(PROTOCOL), 'mock', name, recording)
    const through = await read(
      `${server.url}/api`,
      server.inference_key,
      `claude/${name}`,
      recording,
    )
    expect(comparable(through)).toEqual(comparable(direct))
  },
)

function read(
  baseURL: string,
  apiKey: string,
  model: string,
  { mode }: Recording,
): Promise<Anthropic.Message> {
  const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 })
  const body = { model, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hi' }] }
  return mode === 'streamed'
    ? client.messages.stream(body).finalMessage()
    : client.messages.create(body)
}

/** Removes ids from a message, and adds fields of the public schema that old recordings lack. */
function comparable(message: Anthropic.Message): Json {
  const { content, stop_reason, stop_sequence, container, context_management } = JSON.parse(
    JSON.stringify(message),
  ) as Json
  return {
    stop_reason,
    stop_sequence: stop_sequence ?? null,
    container: container ?? null,
    context_management: context_management ?? null,
    counts: countsOf(message),
    content: (content as Json[]).map(completed),
  }
}

function completed(block: Json): Json {
  if (block.type === 'text')
    return {
      ...block,
      citations:
        Array.isArray(block.citations) && block.citations.length > 0 ? block.citations : null,
    }
  return block.type === 'tool_use' ? { caller: { type: 'direct' }, ...block } : block
}

function countsOf({ usage }: Anthropic.Message): Json {
  const given: Json = { ...usage }
  const { web_search_requests = 0, web_fetch_requests = 0 } = isObject(given.server_tool_use)
    ? given.server_tool_use
    : {}
  const { ephemeral_1h_input_tokens = 0 } = readObject(given, 'cache_creation')
  return {
    input: given.input_tokens,
    output: given.output_tokens,
    read: given.cache_read_input_tokens ?? 0,
    written: given.cache_creation_input_tokens ?? 0,
    ephemeral_1h_input_tokens,
    web_search_requests,
    web_fetch_requests,
  }
}
