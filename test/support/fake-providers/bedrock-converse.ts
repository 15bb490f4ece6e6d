import { parseExact } from '../../../src/base/json.ts'
import { awsEvent, awsException } from '../aws-event-stream.ts'
import {
  createReceivedRequest,
  type FakeProvider,
  type ReceivedRequest,
  type ScriptedAnswer,
  splitInHalf,
  TOKENS,
} from './fake-provider.ts'

interface ConverseBlock {
  text?: string
  image?: { source: { bytes: string } }
  reasoningContent?: { reasoningText?: { text: string; signature?: string } }
  toolUse?: { toolUseId: string; name: string; input: unknown }
  toolResult?: { toolUseId: string; content: { text?: string; json?: unknown }[] }
}

/** Amazon's Converse. */
export const bedrockConverse: FakeProvider = {
  streamType: 'application/vnd.amazon.eventstream',
  readRequest(body) {
    const received = createReceivedRequest()
    received.system = ((body.system ?? []) as ConverseBlock[])
      .flatMap(block => block.text ?? [])
      .join('')
    for (const { role, content } of body.messages as { role: string; content: ConverseBlock[] }[])
      for (const block of content) recordBlock(role, block, received)
    const { tools = [], toolChoice = {} } = (body.toolConfig ?? {}) as {
      tools?: { toolSpec?: { name: string; inputSchema: { json: unknown } } }[]
      toolChoice?: { auto?: object; any?: object; tool?: { name: string } }
    }
    const specs = tools.flatMap(({ toolSpec }) => toolSpec ?? [])
    const forced = toolChoice.tool?.name
    received.tools = specs.map(({ name }) => name)
    received.choice = forced ?? (toolChoice.any ? 'required' : toolChoice.auto ? 'auto' : null)
    received.schema =
      readNativeSchema(body.outputConfig) ??
      (forced === 'json'
        ? (specs.find(({ name }) => name === 'json')?.inputSchema.json ?? null)
        : null)
    return received
  },
  renderAnswer: answer => ({
    output: { message: { role: 'assistant', content: renderContent(answer) } },
    stopReason: STOP[answer.finish],
    usage: USAGE,
    metrics: { latencyMs: 1 },
  }),
  renderStream: answer =>
    Buffer.concat([
      renderEvent('messageStart', { role: 'assistant' }),
      ...renderContent(answer).flatMap((block, index) => renderBlockEvents(block, index)),
      renderEvent('messageStop', { stopReason: STOP[answer.finish] }),
      renderEvent('metadata', { usage: USAGE, metrics: { latencyMs: 1 } }),
    ]),
  renderBrokenStream: text =>
    Buffer.concat([
      renderEvent('messageStart', { role: 'assistant' }),
      renderEvent('contentBlockDelta', { contentBlockIndex: 0, delta: { text } }),
      awsException(
        'internalServerException',
        '{"message":"The system encountered an unexpected error"}',
      ),
    ]),
  overloadedResponse: {
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

const renderEvent = (name: string, payload: object) => awsEvent(name, JSON.stringify(payload))

const renderContent = ({ text, thought, calls }: ScriptedAnswer): ConverseBlock[] => [
  ...(thought ? [{ reasoningContent: { reasoningText: thought } }] : []),
  ...(text ? [{ text }] : []),
  ...(calls ?? []).map(({ id, name, input }) => ({
    toolUse: { toolUseId: id, name, input: parseExact(input) },
  })),
]

function renderBlockEvents(
  { text, reasoningContent, toolUse }: ConverseBlock,
  contentBlockIndex: number,
): Uint8Array[] {
  const delta = (given: object) =>
    renderEvent('contentBlockDelta', { contentBlockIndex, delta: given })
  const { toolUseId, name } = toolUse ?? {}
  const { text: thought = '', signature } = reasoningContent?.reasoningText ?? {}
  return [
    ...(toolUse
      ? [
          renderEvent('contentBlockStart', {
            contentBlockIndex,
            start: { toolUse: { toolUseId, name } },
          }),
        ]
      : []),
    ...splitInHalf(thought).map(piece => delta({ reasoningContent: { text: piece } })),
    ...(signature ? [delta({ reasoningContent: { signature } })] : []),
    ...splitInHalf(text ?? '').map(piece => delta({ text: piece })),
    ...(toolUse
      ? splitInHalf(JSON.stringify(toolUse.input)).map(input => delta({ toolUse: { input } }))
      : []),
    renderEvent('contentBlockStop', { contentBlockIndex }),
  ]
}

function readNativeSchema(config: unknown): unknown {
  const schema = (
    config as { textFormat?: { structure?: { jsonSchema?: { schema: string } } } } | undefined
  )?.textFormat?.structure?.jsonSchema?.schema
  return schema === undefined ? null : JSON.parse(schema)
}

function recordBlock(
  role: string,
  { text, image, reasoningContent, toolUse, toolResult }: ConverseBlock,
  received: ReceivedRequest,
): void {
  if (text) received.lines.push(`${role}: ${text}`)
  if (image) received.images.push(image.source.bytes)
  const thought = reasoningContent?.reasoningText
  if (thought) received.thoughts.push({ text: thought.text, signature: thought.signature ?? '' })
  if (toolUse)
    received.calls.push({
      id: toolUse.toolUseId,
      name: toolUse.name,
      input: JSON.stringify(toolUse.input),
    })
  if (toolResult)
    received.results.push({
      id: toolResult.toolUseId,
      text: toolResult.content.map(part => part.text ?? JSON.stringify(part.json)).join(''),
    })
}
