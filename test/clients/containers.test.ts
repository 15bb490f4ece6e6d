import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { OpenRouter } from '@openrouter/sdk'
import OpenAI from 'openai'
import { SANDBOXES } from '../../src/network/sandboxes/registry.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * A model writes a file in a container, reads it, and its client fetches it: through each API, with
 * the official clients, in every sandbox that holds here.
 */

const CSV = 'city,people\nBerlin,3\n"Köln, am Rhein",1\n'
const COMMANDS = [
  `mkdir -p out && printf '${CSV.replaceAll('\n', '\\n')}' > out/report.csv`,
  'cat out/report.csv',
]

/** A model that writes, then reads, then tells what it has read. */
const scenario: Scenario = ({ tools, results }) => {
  const command = COMMANDS[results.length]
  const [name] = tools
  if (command === undefined || name === undefined)
    return { answer: { text: `It says: ${results.at(-1)?.text}`, finish: 'stop' } }
  const input = JSON.stringify(name === 'bash' ? { command } : { commands: [command] })
  const id = `call_${results.length}`
  return { answer: { calls: [{ id, name, input }], finish: 'tool_calls' } }
}

let upstream: FakeProviderServer
beforeAll(() => {
  upstream = startFakeProviders({ loop: scenario })
})
afterAll(() => upstream.close())

for (const { name, findObstacle } of SANDBOXES) {
  const obstacle = await findObstacle()
  if (obstacle === null) testClients(name)
  else test.skip(`${name} does not hold here: ${obstacle}`, () => undefined)
}

function testClients(kind: 'bubblewrap' | 'just-bash'): void {
  describe(kind, () => {
    let server: LocalServer
    let wirecheck: Wirecheck | undefined
    let openai: OpenAI
    let anthropic: Anthropic
    let openrouter: OpenRouter

    beforeAll(async () => {
      server = await startLocalServer({
        sandbox: { kind },
        providers: {
          together: {
            ...{ name: 'Together', protocol: 'openai-chat', api_key: 'mock' },
            base_url: upstream.getBaseUrl('openai-chat'),
          },
        },
        models: [
          {
            ...{ id: 'acme/worker', context_length: 100_000 },
            endpoints: [
              {
                ...{ provider: 'together', model: 'loop' },
                usd_per_million_tokens: { prompt: 1, completion: 2 },
              },
            ],
          },
        ],
      })
      wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
      const url = `${wirecheck?.url ?? server.url}/api`
      const apiKey = server.inference_key
      openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 })
      anthropic = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 })
      openrouter = new OpenRouter({ serverURL: `${url}/v1`, apiKey })
    })
    afterAll(async () => {
      await wirecheck?.close()
      await server?.[Symbol.asyncDispose]()
    })

    const model = 'acme/worker'
    const environment = (container_id: string) => ({
      engine: 'openrouter',
      environment: { type: 'container_reference', container_id },
    })
    const tool = (type: string, container: string) =>
      ({ type, parameters: environment(container) }) as never

    /** Promotes the file of a container and downloads the copy, as OpenAI’s client does. */
    async function fetchReport(container: string): Promise<string> {
      const { data } = await openai.containers.files.list(container)
      const [file] = data
      expect(data).toHaveLength(1)
      expect(file).toMatchObject({ path: 'out/report.csv', bytes: Buffer.byteLength(CSV) })
      const id = file?.id ?? ''
      expect(await openai.containers.files.retrieve(id, { container_id: container })).toEqual(
        file as never,
      )
      const content = openai.containers.files.content.retrieve(id, { container_id: container })
      expect(await (await content).text()).toBe(CSV)
      const path = `/containers/${container}/files/${id}/promote`
      const copy = (await openai.post(path)) as { id: string; filename: string }
      expect(copy.filename).toBe('out/report.csv')
      expect(await openai.post<{ id: string }>(path)).toMatchObject({ id: copy.id })
      return (await openai.files.content(copy.id)).text()
    }

    test('Responses: OpenAI’s client reads the items and gets the same bytes', async () => {
      const answer = await openai.responses.create({
        ...{ model, input: 'Write a report' },
        tools: [tool('openrouter:shell', 'responses')],
      })
      const items = answer.output as unknown as Record<string, unknown>[]
      expect(items.map(({ type }) => type)).toEqual([
        'openrouter:shell',
        'openrouter:shell',
        'message',
      ])
      expect(items[0]).toMatchObject({
        ...{ status: 'completed', container_id: 'responses', call_id: 'call_0' },
        action: { commands: [COMMANDS[0]] },
        output: [{ stdout: '', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
        files: [{ type: 'container_file_citation', filename: 'out/report.csv' }],
      })
      expect(items[1]).toMatchObject({ output: [{ stdout: CSV }] })
      expect(answer.output_text).toContain('Berlin,3')
      expect(await fetchReport('responses')).toBe(CSV)
    })

    test('Responses: the provider’s own shell, run here, is shown as its own', async () => {
      const ask = (stream: boolean) => ({
        ...{ model, input: 'Write a report', stream },
        tools: [{ type: 'shell', ...environment('native') } as never],
      })
      const types = [
        'shell_call',
        'shell_call_output',
        'shell_call',
        'shell_call_output',
        'message',
      ]
      const whole = await openai.responses.create({ ...ask(false), stream: false })
      expect(whole.output.map(({ type }) => type as string)).toEqual(types)
      expect(whole.output[1]).toMatchObject({
        ...{ type: 'shell_call_output', call_id: 'call_0', status: 'completed' },
        output: [{ stdout: '', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
      })
      const stream = openai.responses.stream(ask(true) as never)
      const streamed = await stream.finalResponse()
      expect(streamed.output.map(({ type }) => type as string)).toEqual(types)
      expect(await fetchReport('native')).toBe(CSV)
    })

    test('Messages: Anthropic’s client reads the blocks and gets the same bytes', async () => {
      const answer = await anthropic.messages.create({
        ...{ model, max_tokens: 100 },
        messages: [{ role: 'user', content: 'Write a report' }],
        tools: [tool('openrouter:bash', 'messages')],
      })
      const blocks = answer.content as unknown as Record<string, unknown>[]
      const pair = ['server_tool_use', 'openrouter_bash_tool_result']
      expect(blocks.map(({ type }) => type)).toEqual([...pair, ...pair, 'text'])
      expect(blocks[3]).toMatchObject({
        content: { stdout: CSV, stderr: '', exitCode: 0 },
        container_id: 'messages',
      })
      expect(await fetchReport('messages')).toBe(CSV)
      // The blocks come back with the conversation, and no provider is shown them.
      const next = await anthropic.messages.create({
        ...{ model, max_tokens: 100 },
        messages: [
          { role: 'user', content: 'Write a report' },
          { role: 'assistant', content: answer.content },
          { role: 'user', content: 'Again' },
        ],
      })
      expect(next.type).toBe('message')
    })

    test('Messages: OpenAI’s client gets the blocks and the same bytes', async () => {
      const answer = await openai.post<{ content: Record<string, unknown>[] }>('/messages', {
        body: {
          ...{ model, max_tokens: 100 },
          messages: [{ role: 'user', content: 'Write a report' }],
          tools: [tool('openrouter:shell', 'messages-openai')],
        },
      })
      const pair = ['server_tool_use', 'openrouter_shell_tool_result']
      expect(answer.content.map(({ type }) => type)).toEqual([...pair, ...pair, 'text'])
      expect(JSON.stringify(answer.content[3])).toContain('Berlin,3')
      expect(await fetchReport('messages-openai')).toBe(CSV)
    })

    test('Chat: OpenAI’s client gets the answer and the same bytes', async () => {
      const answer = await openai.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'Write a report' }],
        tools: [tool('openrouter:bash', 'chat')],
      })
      expect(answer.choices[0]?.message.content).toContain('Berlin,3')
      expect(await fetchReport('chat')).toBe(CSV)
    })

    test('OpenRouter’s client lists, reads and promotes files of a container', async () => {
      const { containers } = openrouter
      const page = await containers.listContainerFiles({ containerId: 'chat' })
      const text = JSON.stringify(page)
      expect(text).toContain('out/report.csv')
      const fileId = /cfile_[\w-]+/.exec(text)?.[0] ?? ''
      const named = { containerId: 'chat', fileId }
      expect(await containers.getContainerFile(named)).toMatchObject({ path: 'out/report.csv' })
      const bytes = await containers.downloadContainerFileContent(named)
      expect(await new Response(bytes as never).text()).toBe(CSV)
      const copy = JSON.stringify(await containers.promoteContainerFile(named))
      expect(copy).toContain('or_file_')
    })

    test.skipIf(!hasWirecheck)('all answers are what the public schema says', async () => {
      const report = await wirecheck?.report()
      expect(report?.violations).toEqual([])
      expect(Object.keys(report?.seen ?? {})).toEqual(
        expect.arrayContaining(['promoteContainerFile 200', 'listContainerFiles 200']),
      )
    })
  })
}
