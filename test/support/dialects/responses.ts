import OpenAI, { APIError } from 'openai'
import type {
  Response,
  ResponseCreateParams,
  ResponseInputItem,
} from 'openai/resources/responses/responses'
import {
  type ClientReading,
  type ClientRequest,
  createEmptyReading,
  type DialectClient,
  PARAMETERS,
} from './dialect.ts'

/** OpenAI's own client of the Responses API. */
export const responses: DialectClient = {
  async ask(base, key, asking) {
    const client = new OpenAI({ baseURL: `${base}/api/v1`, apiKey: key, maxRetries: 0 })
    const reading = createEmptyReading()
    try {
      const response = asking.stream
        ? await streamResponse(client, asking, reading)
        : await client.responses.create({ ...buildBody(asking), stream: false })
      return readResponse(response, reading)
    } catch (thrown) {
      if (!(thrown instanceof APIError)) throw thrown
      const { metadata } = thrown.error as { metadata: { error_type: string } }
      return { ...reading, failure: { status: thrown.status ?? null, type: metadata.error_type } }
    }
  },
}

async function streamResponse(
  client: OpenAI,
  asking: ClientRequest,
  reading: ClientReading,
): Promise<Response> {
  const events = await client.responses.create({ ...buildBody(asking), stream: true })
  let last: Response | undefined
  for await (const event of events) {
    if (event.type === 'response.output_text.delta') reading.text += event.delta
    if (
      event.type === 'response.completed' ||
      event.type === 'response.incomplete' ||
      event.type === 'response.failed'
    )
      last = event.response
  }
  if (!last) throw new Error('The stream ended without a response')
  return last
}

type Body = Omit<ResponseCreateParams, 'stream'>

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
}: ClientRequest): Body {
  return {
    model,
    max_output_tokens: 4_000,
    store: false,
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text },
          ...(image
            ? [{ type: 'input_image' as const, image_url: image, detail: 'auto' as const }]
            : []),
        ],
      },
      ...((after?.answer.own ?? []) as ResponseInputItem[]),
      ...(after?.results.map((output, i) => ({
        type: 'function_call_output' as const,
        call_id: after.answer.calls[i]?.id ?? '',
        output,
      })) ?? []),
    ],
    ...(system ? { instructions: system } : {}),
    ...(tools
      ? {
          tools: tools.map(name => ({
            type: 'function' as const,
            name,
            parameters: PARAMETERS,
            strict: false,
          })),
        }
      : {}),
    ...(mustCall ? { tool_choice: { type: 'function' as const, name: mustCall } } : {}),
    ...(schema
      ? { text: { format: { type: 'json_schema' as const, name: 'answer', strict: true, schema } } }
      : {}),
    ...(thinks ? { reasoning: { effort: 'low' as const, summary: 'auto' as const } } : {}),
  }
}

function readResponse(response: Response, reading: ClientReading): ClientReading {
  const { output, usage, error, status } = response
  const calls = output.filter(item => item.type === 'function_call')
  const { error_type } = response as { error_type?: string }
  return {
    ...reading,
    text: response.output_text,
    thought: output
      .flatMap(item => (item.type === 'reasoning' ? item.summary : []))
      .map(({ text }) => text)
      .join(''),
    calls: calls.map(({ call_id, name, arguments: input }) => ({
      id: call_id,
      name,
      input: JSON.parse(input),
    })),
    finish: readFinish(response, calls.length),
    tokens: usage ? { input: usage.input_tokens, output: usage.output_tokens } : null,
    own: output,
    failure: status === 'failed' && error ? { status: null, type: error_type ?? error.code } : null,
  }
}

/** Reads why the answer ended, as clients of this API do. */
function readFinish({ output, incomplete_details }: Response, callCount: number): string {
  const contents = output.flatMap(item => (item.type === 'message' ? item.content : []))
  const refused = contents.some(({ type }) => type === 'refusal')
  if (refused || incomplete_details?.reason === 'content_filter') return 'refusal'
  if (incomplete_details?.reason === 'max_output_tokens') return 'length'
  return callCount > 0 ? 'tool_calls' : 'stop'
}
