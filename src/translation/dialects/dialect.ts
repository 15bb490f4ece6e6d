import type { TSchema } from '@sinclair/typebox'
import type { ByteSource } from '../../base/byte-source.ts'
import type { GatewayError } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import type { Answer } from '../../language/answer.ts'
import type { Origin } from '../../language/call.ts'
import type { DialectName, TextDialect } from '../../language/dialect.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { PresetDraft } from '../../resources/presets/draft.ts'
import type { DialectWorld } from './world.ts'

/**
 * The API of one client family: its requests, answers and failures. A dialect only translates.
 * `registry.ts` lists all dialects, and the server adds a route for each.
 */
export interface Dialect<K extends Kind = Kind, Body = DialectBody> {
  name: DialectName
  /** The kind of work that its calls request. */
  kind: K
  /** The path of its route, below `/api/v1`. */
  path: `/${string}`
  /** The description of the route in the API's OpenAPI document. */
  operation: { id: string; tag: string; summary: string }
  /** The schema of its bodies. The methods below receive only bodies that match it. */
  body: TSchema
  /** How its bodies may come as a form, if they may. */
  form?: FormBody
  /** The format of its errors, if it is not the usual error envelope. */
  errorFormat?: ErrorFormat
  /** Whether the key may also come in the `x-api-key` header. */
  acceptsApiKeyHeader?: boolean
  /** The header in which its clients look for the id of an answer. */
  idHeader?: string
  /** Whether clients can ask by header how their call was routed. */
  showsRouting?: boolean
  /** Whether its clients go on from stored answers, where the operator lets them, and leave some. */
  storing?: 'read' | 'keep'
  /**
   * Translates a body into a call that inherits from the preset that the body names. Throws 400 if
   * fields contradict each other, and 404 for a preset that cannot be used.
   */
  toCall(world: DialectWorld, actor: Actor, body: Body, context: CallContext): Work[K]['call']
  /** The status of its answers, where it is not 200. */
  status?: 202
  /** The media types of its answers, where they are not JSON. */
  produces?: string[]
  /**
   * Collects the parts of an answer into one JSON value, or opens a `RawBody`. Throws the error of a
   * failed answer.
   */
  collectResponse(answer: Answer<K>, call: Work[K]['call'], body: Body): Promise<unknown>
  /** How answers stream; absent if every answer is whole. */
  streaming?: Streaming<K, Body>
  /** The form of its preset requests, if presets can be made from them. */
  preset?: PresetForm
}

/** A body as a form (`multipart/form-data`): a file, and fields beside it. */
export interface FormBody {
  /** The schema of its fields. The values of a list come as fields of one name. */
  body: TSchema
  /** The name of the part that is the file. */
  file: string
  /** The most bytes of files that may be left out, and are handed over whole as their heads. */
  whole?: number
  /** The most bytes of all fields beside its files; 64 KiB by default. */
  fields?: number
  /** The names of further files, one of each. */
  others?: string[]
  /** How many files may come under that name, or that name and `[]`; one by default. */
  most?: number
}

/** The file of a form. */
export interface FormFile {
  /** The name of its part, without `[]`. */
  name: string
  source: ByteSource
  /** Its first bytes: 64 KiB, or all where the form says so. */
  head: Uint8Array
}

/** How answers are written as server-sent events. */
export interface Streaming<K extends Kind = Kind, Body = DialectBody> {
  /** The media type of its streams, where they are no events. */
  media_type?: string
  /** Whether each character of its texts is a byte. */
  isBinary?: boolean
  /**
   * Whether an answer that the provider gives whole is one JSON value even if a stream was asked
   * for. The client then hears nothing until the answer begins.
   */
  leavesWholeAnswers?: boolean
  /**
   * Renders the comment or event that is sent while the client waits. Its parser skips it. Absent if
   * it depends on what was sent before: see `begin`.
   */
  renderKeepAlive?(serviceName: string): string
  /** Begins a stream whose keep-alives are numbered among its events, perhaps before its answer. */
  begin?(heading: AnswerHeader, call: Work[K]['call'], body: Body): BegunStream<K>
  /**
   * Whether a call that failed for this reason before anything was sent is answered with a stream
   * that says so, in place of an error.
   */
  tellsFailure?(error: GatewayError): boolean
  /** Streams the events of an answer in batches. Returning early ends the answer early too. */
  streamEvents(answer: Answer<K>, call: Work[K]['call'], body: Body): AsyncIterator<string>
  /** Renders the events of a call that failed after its stream had begun with keep-alives. */
  renderFailure(
    heading: AnswerHeader,
    error: GatewayError,
    call: Work[K]['call'],
    body: Body,
  ): string
}

/** A stream that may keep its client waiting before its answer or its failure. */
export interface BegunStream<K extends Kind = Kind> {
  /** Renders the events that are sent while the client waits. */
  renderKeepAlive(): string
  /** Streams the events of the answer as `Streaming.streamEvents` does. */
  streamEvents(answer: Answer<K>): AsyncIterator<string>
  /** Renders the events of a call that failed. */
  renderFailure(error: GatewayError): string
  /** Renders the answer as one value, as it stands; absent where answers are not stored. */
  render?(): Json
  /** Whether the events of all of the answer have been rendered. */
  readonly isWhole?: boolean
}

/** The fields that bodies of all dialects may have: they request a dry run, not an answer. */
export interface DialectBody {
  debug?: { dry_run?: boolean | null; key?: string | null } | null
}

/** What is known about a call apart from its body, mostly from its headers. */
export interface CallContext {
  origin: Origin
  /** The generation's id. It is chosen first, so that errors can carry it too. */
  id: string
  session_id: string | null
  betas: string[]
  /** The response field in which the caller wants to see how the call was routed. */
  routingMetadataField?: string
  /** The conversation before it stands in its body, and its answer may be stored. */
  isStateful?: boolean
  /** The file of its form, if the body came as one. */
  file?: FormFile
  /** All of them, where there may be several. */
  files?: FormFile[]
}

/** The fields of an answer that its events carry before the answer has begun. */
export type AnswerHeader = Pick<Answer<Kind>, 'id' | 'created' | 'model' | 'provider'>

/** An error format: its name and schema in the OpenAPI document, and how errors are rendered. */
export interface ErrorFormat {
  name: string
  schema: object
  /** Renders an error. `id` is the generation's; null if the request failed before it had one. */
  renderError(error: GatewayError, id: string | null): unknown
  /** Renders the headers in which its clients look for an error too, if there are any. */
  renderHeaders?(error: GatewayError): Record<string, string>
}

/** A form of request that presets can be made from. */
export interface PresetForm<Body = unknown> {
  name: TextDialect
  /** The path of its route, below the preset's own. */
  path: `/${string}`
  operation: { id: string; summary: string }
  body: TSchema
  /** Translates a body into what the preset keeps of it, under the chat API's field names. */
  toPresetDraft(body: Body): PresetDraft
}
