import type { Gateway } from '../../src/app/gateway.ts'
import { getApp } from './app.ts'

/** A call in no dialect, as a test makes it at every door. */
export interface DoorCall {
  model: string
  stream: boolean
  text?: string
  /** A file, as a data URL. */
  file?: { name: string; url: string }
  /** The schema that the answer should fit. */
  schema?: Record<string, unknown>
  plugins?: Record<string, unknown>[]
  /** Further fields of the body. */
  more?: Record<string, unknown>
}

/** What came out at a door. */
export interface DoorAnswer {
  status: number
  /** The text of the answer; what was said of an error. */
  text: string
  /** The entries of the pipeline in the routing metadata. */
  pipeline: { type: string; name: string; summary?: string; data?: Record<string, unknown> }[]
  /** The body as it came. */
  raw: string
}

/** The three doors, by their names. */
export const DOORS = ['chat', 'messages', 'responses'] as const
export type Door = (typeof DOORS)[number]

const PATHS: Record<Door, string> = {
  chat: '/api/v1/chat/completions',
  messages: '/api/v1/messages',
  responses: '/api/v1/responses',
}

const BODIES: Record<Door, (call: DoorCall) => Record<string, unknown>> = {
  chat: ({ text = 'Hi', file, schema }) => ({
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text },
          ...(file ? [{ type: 'file', file: { filename: file.name, file_data: file.url } }] : []),
        ],
      },
    ],
    ...(schema
      ? { response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } }
      : {}),
  }),
  messages: ({ text = 'Hi', file, schema }) => ({
    max_tokens: 100,
    messages: [
      {
        role: 'user',
        content: [{ type: 'text', text }, ...(file ? [toDocument(file)] : [])],
      },
    ],
    ...(schema ? { output_config: { format: { type: 'json_schema', schema } } } : {}),
  }),
  responses: ({ text = 'Hi', file, schema }) => ({
    input: [
      {
        role: 'user',
        content: [
          { type: 'input_text', text },
          ...(file ? [{ type: 'input_file', filename: file.name, file_data: file.url }] : []),
        ],
      },
    ],
    ...(schema ? { text: { format: { type: 'json_schema', name: 'a', schema } } } : {}),
  }),
}

function toDocument({ name, url }: { name: string; url: string }) {
  const comma = url.indexOf(',')
  const media_type = url.slice('data:'.length, url.indexOf(';'))
  return {
    type: 'document',
    title: name,
    source: { type: 'base64', media_type, data: url.slice(comma + 1) },
  }
}

/** Makes a call at a door of a gateway in this process, with a key of it. */
export async function askDoor(
  gateway: Gateway,
  key: string,
  door: Door,
  call: DoorCall,
): Promise<DoorAnswer> {
  const { model, stream, plugins, more } = call
  const body = { model, stream, ...BODIES[door](call), ...(plugins ? { plugins } : {}), ...more }
  const response = await getApp(gateway).handle(
    new Request(`http://localhost${PATHS[door]}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        'x-gateway-metadata': 'enabled',
      },
      body: JSON.stringify(body),
    }),
  )
  const raw = await response.text()
  const events = stream && response.status === 200 ? readEvents(raw) : [JSON.parse(raw)]
  return {
    status: response.status,
    text:
      response.status === 200 ? readText(door, events, stream) : JSON.stringify(events[0].error),
    pipeline: events.map(findPipeline).find(found => found !== undefined) ?? [],
    raw,
  }
}

// biome-ignore lint/suspicious/noExplicitAny: bodies of three dialects.
type Event = any

const readEvents = (raw: string): Event[] =>
  raw
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice('data: '.length)))

const findPipeline = (event: Event) =>
  (event.gateway_metadata ?? event.response?.gateway_metadata)?.pipeline

function readText(door: Door, events: Event[], stream: boolean): string {
  const [whole] = events
  if (!stream) {
    if (door === 'chat') return whole.choices[0].message.content
    const contents = door === 'messages' ? whole.content : whole.output.flatMap(listContents)
    return contents.map(({ text = '' }: Event) => text).join('')
  }
  return events.map(event => readDelta(door, event)).join('')
}

const listContents = ({ content }: Event) => content ?? []

function readDelta(door: Door, event: Event): string {
  if (door === 'chat') return event.choices?.[0]?.delta?.content ?? ''
  if (door === 'messages') return event.delta?.text ?? ''
  return event.type === 'response.output_text.delta' ? event.delta : ''
}
