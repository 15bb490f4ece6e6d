import { type Static, Type } from '@sinclair/typebox'
import {
  Content,
  Id,
  list,
  Name,
  oneOf,
  open,
  optional,
  SomeContent,
} from '../../../base/schema-builders.ts'
import type { Block } from '../../../language/message.ts'
import { AnyObject, cacheMarkerField, toCacheControlField, toExtraField } from '../schema.ts'

/** The parts that the content of input items has (wire reference D.3). */

/** Marks the end of a cached prefix. Providers of this API get it as it is. */
const breakpoint = { prompt_cache_breakpoint: optional(AnyObject) }
const markers = { ...cacheMarkerField, ...breakpoint }

const InputText = Type.Object({ type: Type.Literal('input_text'), text: Content, ...markers }, open)
const InputImage = Type.Object(
  {
    type: Type.Literal('input_image'),
    image_url: optional(SomeContent),
    file_id: optional(Id),
    detail: optional(oneOf('auto', 'low', 'high', 'original')),
    ...markers,
  },
  open,
)
const InputFile = Type.Object(
  {
    type: Type.Literal('input_file'),
    file_data: optional(SomeContent),
    file_id: optional(Id),
    file_url: optional(SomeContent),
    filename: optional(Name),
    ...markers,
  },
  open,
)
const InputAudio = Type.Object(
  {
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: Content, format: oneOf('mp3', 'wav') }, open),
  },
  open,
)
const InputVideo = Type.Object({ type: Type.Literal('input_video'), video_url: SomeContent }, open)
const OutputText = Type.Object(
  { type: Type.Literal('output_text'), text: Content, ...cacheMarkerField },
  open,
)
const Refusal = Type.Object({ type: Type.Literal('refusal'), refusal: Content }, open)

const ContentPart = Type.Union([
  InputText,
  InputImage,
  InputFile,
  InputAudio,
  InputVideo,
  OutputText,
  Refusal,
])
type ContentPart = Static<typeof ContentPart>

/** The content of a message: a text, or parts. */
export const MessageContent = Type.Union([Content, list(ContentPart)])
export type MessageContent = Static<typeof MessageContent>

/** The output of a tool: a text, or parts that a user could have sent. */
export const ToolOutput = Type.Union([
  Content,
  list(Type.Union([InputText, InputImage, InputFile, InputAudio, InputVideo, OutputText])),
])

/** Converts the content of a message, or the output of a tool, into blocks. `field` is its place. */
export const toBlocks = (content: MessageContent | null | undefined, field: string): Block[] =>
  typeof content === 'string'
    ? [{ type: 'text', text: content }]
    : (content ?? []).map((part, i) => toBlock(part, `${field}.${i}`))

function toBlock(part: ContentPart, field: string): Block {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: part.text, ...toMarkerFields(part) }
    case 'refusal':
      return { type: 'refusal', text: part.refusal }
    case 'input_image':
      return toImageBlock(part, field)
    case 'input_file':
      return toFileBlock(part, field)
    case 'input_audio':
      return { type: 'audio', ...part.input_audio }
    case 'input_video': {
      const { type: _, video_url: url, ...extra } = part
      return { type: 'video', url, ...toExtraField(extra), field }
    }
  }
}

interface Markers {
  cache_control?: Static<(typeof cacheMarkerField)['cache_control']>
  prompt_cache_breakpoint?: unknown
}

const toMarkerFields = ({ cache_control, prompt_cache_breakpoint }: Markers) => ({
  ...toCacheControlField(cache_control),
  ...(prompt_cache_breakpoint == null ? {} : { extra: { prompt_cache_breakpoint } }),
})

// A picture that is stored at the provider means something to that provider only.
function toImageBlock(part: Static<typeof InputImage>, field: string): Block {
  const { image_url, detail } = part
  if (image_url == null) return { type: 'other', dialect: 'responses', value: part, field }
  return {
    type: 'image',
    url: image_url,
    ...(detail == null ? {} : { detail }),
    ...toMarkerFields(part),
    field,
  }
}

function toFileBlock(part: Static<typeof InputFile>, field: string): Block {
  const { file_data, file_id, file_url, filename } = part
  const data = file_data ?? file_url
  return {
    type: 'file',
    file: {
      ...(data == null ? {} : { file_data: data }),
      ...(file_id == null ? {} : { file_id }),
      ...(filename == null ? {} : { filename }),
    },
    ...toMarkerFields(part),
    field,
  }
}
