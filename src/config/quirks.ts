import { type Static, Type } from '@sinclair/typebox'
import { closed, nullable, oneOf } from '../base/schema-builders.ts'

const choice = <const Words extends readonly string[]>(words: Words, description: string) =>
  Type.Union(oneOf(...words).anyOf, { description })

/** How a server that speaks OpenAI's chat differs from the others. */
export const Quirks = Type.Object(
  {
    api_version: nullable(Type.String({ minLength: 1 }), {
      description: 'Azure’s dated API: it goes into the query, and the deployment into the path',
    }),
    output_bound: choice(['max_tokens', 'max_completion_tokens'], 'The name of the output bound'),
    reasoning: choice(
      ['effort', 'object', 'thinking', 'enable_thinking', 'template', 'none'],
      'How reasoning is requested: reasoning_effort, the whole object, thinking: { type }, ' +
        'enable_thinking with a budget, the chat template’s switch, not at all',
    ),
    reasoning_back: choice(
      ['details', 'reasoning', 'reasoning_content', 'content', 'none'],
      'Where the model’s earlier thinking is sent back: reasoning with its ' +
        'reasoning_details, a field of the message, a part of its content, nowhere',
    ),
    developer_role: Type.Boolean({
      description: 'Accepts the role developer; else it becomes a system message',
    }),
    names: Type.Boolean({
      description: 'Accepts the name of a message; else it is put before the text',
    }),
    alternating: Type.Boolean({
      description:
        'Needs user and assistant to alternate: messages of one role in a row are merged',
    }),
    cache_markers: Type.Boolean({ description: 'Accepts cache_control' }),
    think_tags: Type.Boolean({
      description: 'May think aloud between <think> and </think> in the text',
    }),
    tool_call_ids: choice(
      ['any', 'nine'],
      'The ids that a tool call may have: any, or exactly nine letters and digits',
    ),
    required_tool: choice(['required', 'any'], 'The word for "call some tool"'),
    json_schema: Type.Boolean({
      description:
        'Accepts response_format json_schema; else the schema is put into words for json_object',
    }),
    json_word: Type.Boolean({
      description: 'Refuses json_object unless the conversation contains the word JSON',
    }),
    prefill: choice(
      ['plain', 'prefix', 'partial'],
      'What marks a last message of the assistant as one to continue',
    ),
    counts_stream: Type.Boolean({ description: 'Accepts stream_options.include_usage' }),
    most_stops: nullable(Type.Integer({ minimum: 1 }), {
      description: 'How many stop sequences it accepts; null: any number',
    }),
    images: choice(
      ['compatible', 'openrouter', 'xai', 'together', 'recraft', 'fireworks'],
      'How pictures are asked for: as OpenAI’s servers are, at /images, by aspect_ratio and ' +
        'resolution, by width and height, by a size that may be a ratio, by workflows',
    ),
    speech: choice(
      ['compatible', 'openai', 'groq', 'mistral', 'openrouter'],
      'How speech and transcripts are asked for: as OpenAI’s servers are, speech in events that ' +
        'count tokens, samples as WAV files, by voice_id, as JSON with base64',
    ),
    videos: choice(
      ['compatible', 'openrouter'],
      'How videos are asked for: as OpenAI’s servers are, or in the gateway’s own form',
    ),
    web_search: Type.Boolean({ description: 'Searches the web itself, by web_search_options' }),
    renamed: Type.Record(Type.String(), Type.String(), {
      description: 'Parameters under other names',
    }),
    dropped: Type.Array(Type.String(), { description: 'Parameters that it refuses' }),
  },
  closed,
)
export type Quirks = Static<typeof Quirks>

/** The quirks of a server about which nothing more is known. */
export const NO_QUIRKS: Quirks = {
  api_version: null,
  output_bound: 'max_tokens',
  reasoning: 'effort',
  reasoning_back: 'details',
  developer_role: true,
  names: true,
  alternating: false,
  cache_markers: true,
  think_tags: false,
  tool_call_ids: 'any',
  required_tool: 'required',
  json_schema: true,
  json_word: false,
  prefill: 'plain',
  counts_stream: true,
  most_stops: null,
  images: 'compatible',
  speech: 'compatible',
  videos: 'compatible',
  web_search: false,
  renamed: {},
  dropped: [],
}
