import Anthropic, { APIError } from '@anthropic-ai/sdk'
import {
  type ClientReading,
  type ClientRequest,
  createEmptyReading,
  type DialectClient,
  PARAMETERS,
} from './dialect.ts'

/** Anthropic's own client. */
export const messages: DialectClient = {
  async ask(base, key, asking) {
    const client = new Anthropic({ baseURL: `${base}/api`, apiKey: key, maxRetries: 0 })
    const reading = createEmptyReading()
    try {
      const message = asking.stream
        ? await streamMessage(client, asking, reading)
        : await client.messages.create(buildBody(asking))
      return readMessage(message, reading)
    } catch (thrown) {
      if (!(thrown instanceof APIError)) throw thrown
      const { error } = thrown.error as { error: { error_type: string } }
      return { ...reading, failure: { status: thrown.status ?? null, type: error.error_type } }
    }
  },
}

async function streamMessage(
  client: Anthropic,
  asking: ClientRequest,
  reading: ClientReading,
): Promise<Anthropic.Message> {
  const stream = client.messages.stream(buildBody(asking))
  stream.on('text', text => {
    reading.text += text
  })
  return stream.finalMessage()
}

function buildBody({
  model,
  system,
  text = 'Hi',
  image,
  tools,
  mustCall,
  schema,
  thinks,
  after,
}: ClientRequest): Anthropic.MessageCreateParamsNonStreaming {
  return {
    model,
    max_tokens: 4_000,
    messages: [
      { role: 'user', content: [{ type: 'text', text }, ...(image ? [toImageBlock(image)] : [])] },
      ...(after
        ? [
            {
              role: 'assistant' as const,
              content: after.answer.own as Anthropic.ContentBlockParam[],
            },
          ]
        : []),
      ...(after
        ? [
            {
              role: 'user' as const,
              content: after.results.map((content, i) =>
                toResultBlock(after.answer.calls[i]?.id ?? '', content),
              ),
            },
          ]
        : []),
    ],
    ...(system ? { system } : {}),
    ...(tools ? { tools: tools.map(name => ({ name, input_schema: PARAMETERS })) } : {}),
    ...(mustCall ? { tool_choice: { type: 'tool' as const, name: mustCall } } : {}),
    ...(schema ? { output_config: { format: { type: 'json_schema' as const, schema } } } : {}),
    ...(thinks ? { thinking: { type: 'enabled' as const, budget_tokens: 1_024 } } : {}),
  }
}

const toImageBlock = (url: string): Anthropic.ImageBlockParam => ({
  type: 'image',
  source: url.startsWith('data:')
    ? { type: 'base64', media_type: 'image/png', data: url.slice(url.indexOf(',') + 1) }
    : { type: 'url', url },
})

const toResultBlock = (tool_use_id: string, content: string): Anthropic.ToolResultBlockParam => ({
  type: 'tool_result',
  tool_use_id,
  content,
})

const FINISHES: Record<string, string> = {
  end_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'tool_calls',
}

function readMessage(message: Anthropic.Message, reading: ClientReading): ClientReading {
  const calls = message.content.filter(block => block.type === 'tool_use')
  return {
    ...reading,
    text: message.content.flatMap(block => (block.type === 'text' ? block.text : [])).join(''),
    thought: message.content
      .flatMap(block => (block.type === 'thinking' ? block.thinking : []))
      .join(''),
    calls: calls.map(({ id, name, input }) => ({ id, name, input })),
    finish: message.stop_reason && (FINISHES[message.stop_reason] ?? message.stop_reason),
    tokens: { input: message.usage.input_tokens, output: message.usage.output_tokens },
    own: message.content,
  }
}
