import { parseExact } from '../../../src/core/kernel/json.ts'
import { awsEvent, awsException } from '../aws-event-stream.ts'
import { type Heard, halves, nothingHeard, type Said, TOKENS, type Voice } from './voice.ts'

interface Block {
  text?: string
  image?: { source: { bytes: string } }
  reasoningContent?: { reasoningText?: { text: string; signature?: string } }
  toolUse?: { toolUseId: string; name: string; input: unknown }
  toolResult?: { toolUseId: string; content: { text?: string; json?: unknown }[] }
}

/** Amazon's Converse. */
export const bedrockConverse: Voice = {
  streamType: 'application/vnd.amazon.eventstream',
  heard(body) {
    const heard = nothingHeard()
    heard.system = ((body.system ?? []) as Block[]).flatMap(block => block.text ?? []).join('')
    for (const { role, content } of body.messages as { role: string; content: Block[] }[])
      for (const block of content) hear(role, block, heard)
    const { tools = [], toolChoice = {} } = (body.toolConfig ?? {}) as {
      tools?: { toolSpec?: { name: string; inputSchema: { json: unknown } } }[]
      toolChoice?: { auto?: object; any?: object; tool?: { name: string } }
    }
    const specs = tools.flatMap(({ toolSpec }) => toolSpec ?? [])
    const forced = toolChoice.tool?.name
    heard.tools = specs.map(({ name }) => name)
    heard.choice = forced ?? (toolChoice.any ? 'required' : toolChoice.auto ? 'auto' : null)
    heard.schema =
      nativeSchema(body.outputConfig) ??
      (forced === 'json'
        ? (specs.find(({ name }) => name === 'json')?.inputSchema.json ?? null)
        : null)
    return heard
  },
  whole: said => ({
    output: { message: { role: 'assistant', content: contentOf(said) } },
    stopReason: STOP[said.finish],
    usage: USAGE,
    metrics: { latencyMs: 1 },
  }),
  stream: said =>
    Buffer.concat([
      event('messageStart', { role: 'assistant' }),
      ...contentOf(said).flatMap((block, index) => streamed(block, index)),
      event('messageStop', { stopReason: STOP[said.finish] }),
      event('metadata', { usage: USAGE, metrics: { latencyMs: 1 } }),
    ]),
  broken: text =>
    Buffer.concat([
      event('messageStart', { role: 'assistant' }),
      event('contentBlockDelta', { contentBlockIndex: 0, delta: { text } }),
      awsException(
        'internalServerException',
        '{"message":"The system encountered an unexpected error"}',
      ),
    ]),
  overloaded: {
    status: 503,
    body: {
      __type: 'ServiceUnavailableException',
      message: 'Bedrock is unable to process your request.',
    },
  },
}

const USAGE = {
  inputTokens: TOKENS.input,
  outputTokens: TOKENS.output,
  totalTokens: TOKENS.input + TOKENS.output,
}
const STOP = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  refusal: 'content_filtered',
}

const event = (name: string, payload: object) => awsEvent(name, JSON.stringify(payload))

const contentOf = ({ text, thought, calls }: Said): Block[] => [
  ...(thought ? [{ reasoningContent: { reasoningText: thought } }] : []),
  ...(text ? [{ text }] : []),
  ...(calls ?? []).map(({ id, name, input }) => ({
    toolUse: { toolUseId: id, name, input: parseExact(input) },
  })),
]

function streamed(
  { text, reasoningContent, toolUse }: Block,
  contentBlockIndex: number,
): Uint8Array[] {
  const delta = (given: object) => event('contentBlockDelta', { contentBlockIndex, delta: given })
  const { toolUseId, name } = toolUse ?? {}
  const { text: thought = '', signature } = reasoningContent?.reasoningText ?? {}
  return [
    ...(toolUse
      ? [event('contentBlockStart', { contentBlockIndex, start: { toolUse: { toolUseId, name } } })]
      : []),
    ...halves(thought).map(piece => delta({ reasoningContent: { text: piece } })),
    ...(signature ? [delta({ reasoningContent: { signature } })] : []),
    ...halves(text ?? '').map(piece => delta({ text: piece })),
    ...(toolUse
      ? halves(JSON.stringify(toolUse.input)).map(input => delta({ toolUse: { input } }))
      : []),
    event('contentBlockStop', { contentBlockIndex }),
  ]
}

function nativeSchema(config: unknown): unknown {
  const schema = (
    config as { textFormat?: { structure?: { jsonSchema?: { schema: string } } } } | undefined
  )?.textFormat?.structure?.jsonSchema?.schema
  return schema === undefined ? null : JSON.parse(schema)
}

function hear(
  role: string,
  { text, image, reasoningContent, toolUse, toolResult }: Block,
  heard: Heard,
): void {
  if (text) heard.lines.push(`${role}: ${text}`)
  if (image) heard.images.push(image.source.bytes)
  const thought = reasoningContent?.reasoningText
  if (thought) heard.thoughts.push({ text: thought.text, signature: thought.signature ?? '' })
  if (toolUse)
    heard.calls.push({
      id: toolUse.toolUseId,
      name: toolUse.name,
      input: JSON.stringify(toolUse.input),
    })
  if (toolResult)
    heard.results.push({
      id: toolResult.toolUseId,
      text: toolResult.content.map(part => part.text ?? JSON.stringify(part.json)).join(''),
    })
}
