import { describe, expect, test } from 'bun:test'
import type { Json } from '../../../../src/base/json.ts'
import { fitToEndpoint } from '../../../../src/engine/kinds/text/understanding.ts'
import { toMessages } from '../../../../src/translation/dialects/responses/request.ts'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

/* What a conversation of the Responses API becomes at a provider of another one. */

const FOREIGN = Object.keys(protocols.text).filter(
  name => protocols.text[name]?.nativeDialect !== 'responses' && name !== 'sandbox',
)
const NATIVE = 'openai-responses'

const callOf = (input: Json[]) =>
  buildTextCall({ dialect: 'responses', messages: toMessages(input) })

const messagesAt = (protocol: string, ...input: Json[]) =>
  fitToEndpoint(callOf(input), buildEndpoint({ protocol })).messages

const ASK = { role: 'user', content: 'Hi' }
const LAST = { role: 'user', content: 'Go on' }

/** The call and the result of each tool that the client runs, and the text that is the result's. */
const RUN: Record<string, [Json, Json, input: unknown, result: string]> = {
  shell: [
    { type: 'shell_call', call_id: 'c', action: { commands: ['ls'] } },
    {
      type: 'shell_call_output',
      call_id: 'c',
      output: [
        { stdout: 'a.txt', stderr: 'oh', outcome: { type: 'exit', exit_code: 1 } },
        { stdout: '', stderr: '', outcome: { type: 'timeout' } },
      ],
    },
    { commands: ['ls'] },
    'a.txt\noh\nexit code 1\ntimeout',
  ],
  local_shell: [
    { type: 'local_shell_call', id: 'l', call_id: 'c', action: { type: 'exec', command: ['ls'] } },
    { type: 'local_shell_call_output', id: 'c', output: 'a.txt' },
    { type: 'exec', command: ['ls'] },
    'a.txt',
  ],
  apply_patch: [
    { type: 'apply_patch_call', call_id: 'c', operation: { type: 'delete_file', path: 'a' } },
    { type: 'apply_patch_call_output', call_id: 'c', status: 'failed', output: 'No such file' },
    { type: 'delete_file', path: 'a' },
    'failed\nNo such file',
  ],
  computer: [
    { type: 'computer_call', call_id: 'c', action: { type: 'click', x: 1, y: 2 } },
    { type: 'computer_call_output', call_id: 'c', output: { type: 'file', file_id: 'f' } },
    { type: 'click', x: 1, y: 2 },
    '{"type":"file","file_id":"f"}',
  ],
}

for (const [name, [item, output, input, result]] of Object.entries(RUN))
  test.each(FOREIGN)(
    `a call of the tool ${name} and its result are those of a function at %s`,
    at => {
      const [, said, heard] = messagesAt(at, ASK, item, output, LAST)
      expect(said).toMatchObject({
        role: 'assistant',
        blocks: [{ type: 'tool-call', id: 'c', name, input: JSON.stringify(input) }],
      })
      expect(heard).toMatchObject({
        role: 'tool',
        tool_call_id: 'c',
        blocks: [{ type: 'text', text: result }],
      })
      expect(messagesAt(NATIVE, ASK, item, output)).toEqual(callOf([ASK, item, output]).messages)
    },
  )

test.each(FOREIGN)('a picture of a screen is a picture at %s', at => {
  const [item] = RUN.computer ?? []
  const image_url = 'data:image/png;base64,AAAA'
  const output = { type: 'computer_call_output', call_id: 'c', output: { image_url } }
  expect(messagesAt(at, ASK, item ?? {}, output)[2]?.blocks).toEqual([
    { type: 'image', url: image_url },
  ])
})

test.each(FOREIGN)('what a server of tools answered is in the conversation at %s', at => {
  const server = { type: 'mcp_call', id: 'm', name: 'look', arguments: '{"a":1}', output: 'Seen' }
  const said = { role: 'assistant', content: 'There' }
  expect(messagesAt(at, ASK, server, said, LAST)).toMatchObject([
    { role: 'user' },
    { role: 'assistant', blocks: [{ type: 'tool-call', id: 'm', name: 'look', input: '{"a":1}' }] },
    { role: 'tool', tool_call_id: 'm', blocks: [{ text: 'Seen' }] },
    { role: 'assistant', blocks: [{ text: 'There' }] },
    { role: 'user' },
  ])
})

describe('what the provider’s own tools did is left out, and the words after it stay', () => {
  test.each(FOREIGN.map(at => [at] as const))('at %s', at => {
    const types = ['web_search_call', 'file_search_call', 'code_interpreter_call']
    const items = [...types, 'image_generation_call', 'mcp_list_tools'].map(type => ({
      type,
      id: 'x',
    }))
    const said = { role: 'assistant', content: 'There' }
    const messages = messagesAt(at, ASK, ...items, said, LAST)
    expect(messages[1]?.blocks).toEqual([{ type: 'text', text: 'There' }])
    const call = fitToEndpoint(callOf([ASK, ...items, said, LAST]), buildEndpoint({ protocol: at }))
    const request = protocols.text[at]?.buildRequest(call, buildEndpoint({ protocol: at }))
    expect(JSON.stringify(request?.body)).toContain('There')
  })
})

describe('what would be lost unnoticed is refused by its name and its index', () => {
  test.each([
    { type: 'compaction', encrypted_content: 'gAAAA' },
    { type: 'context_compaction' },
    { type: 'mcp_approval_response', approve: true },
  ])('%j', item => {
    for (const at of FOREIGN)
      expect(() => messagesAt(at, ASK, item)).toThrow(
        `input.1: ${item.type} is an item that this model’s provider does not take`,
      )
    expect(messagesAt(NATIVE, ASK, item)).toHaveLength(2)
  })
})
