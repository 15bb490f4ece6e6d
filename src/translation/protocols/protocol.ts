import type { ByteSource } from '../../base/byte-source.ts'
import type { GatewayError } from '../../base/errors.ts'
import { isObject, type Json } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextDialect } from '../../language/dialect.ts'
import type { Params } from '../../language/params.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'

/**
 * A request to a provider, without its address and credentials. `path` follows the provider's base
 * URL.
 */
export interface UpstreamRequest {
  path: string
  /** The hosts that serve it in the place of those of the base URL. */
  hosts?: Record<string, string>
  /** POST by default. Others have no body. */
  method?: 'GET' | 'DELETE'
  headers?: Record<string, string>
  body: Record<string, unknown>
  /**
   * The fields of the body that hold files, as lists of data URLs: the body is sent as a form then
   * (`multipart/form-data`, RFC 7578).
   */
  files?: string[]
  /** A file that goes with the body, and is read while it is sent. */
  attachment?: Attachment
}

/** What to ask for work that a provider does in its own time. */
export interface FollowUp {
  /** The address that the provider names. It is only asked if it is the provider's own. */
  url?: string
  /** Behind the provider's base URL: asked if no address is named, or a foreign one. */
  path?: string
  /** Sent as JSON; without one it is a GET. */
  body?: Json
}

/** A file that goes with a request. */
export interface Attachment {
  source: ByteSource
  media_type: string
  filename: string
  /**
   * How it goes: as a field of a form with the fields of the body, instead of the body, or in base64
   * in the place of a text of the body, which is `marker`.
   */
  as: { field: string } | 'body' | { marker: string }
}

/** One frame of a streamed answer. */
export interface Frame {
  event: string | null
  data: string
  /** The object of a large event, which was read in turns; null for what is none. */
  json?: Json | null
  /** What a read brought, in an answer of bytes. */
  bytes?: Uint8Array
}

/** Reads one streamed answer. `read` returns the parts that a frame completes. */
export interface Reader<Part> {
  read(frame: Frame): Part[]
  /**
   * Whether the protocol's own terminal event has arrived. Nothing else means that an answer is
   * whole.
   */
  readonly complete: boolean
  /** A failure behind the parts of the last frame, which count still. Others are thrown. */
  readonly failure?: GatewayError | null
  /**
   * Returns the parts that the end of the body completes, for protocols whose last event looks like
   * any other, or is left out by some servers. `isFramed` is false for a body that goes on until its
   * connection closes, which may be cut anywhere. An answer that is not whole by then stays not
   * `complete`.
   */
  end?(isFramed?: boolean): Part[]
}

/** The kinds of content that a caller may reference by URL. */
export type Media = 'image' | 'audio' | 'video' | 'file'

/**
 * How one provider family's answers are divided into frames: server-sent events, or AWS's binary
 * event stream.
 */
export type Framing = 'sse' | 'aws-event-stream'

/** A job at a provider, as later requests name it. */
export interface UpstreamJob {
  /** The provider's own id of it. */
  upstream_id: string
  upstreamModel: string
}

/** How a job is doing. */
export interface JobState {
  status: 'pending' | 'in_progress' | 'completed' | 'failed' | 'cancelled'
  /** Why it failed, in the provider's words; null if it did not, or if they are not known. */
  error: string | null
  /**
   * Where its results are, in order: paths at the provider, URLs elsewhere, or `inline:` and a
   * number for one that is in the answer itself.
   */
  outputs: string[]
  /** The seconds that were made, if the provider tells. */
  seconds: number | null
}

/** How the jobs of a protocol are asked about. */
export interface JobProtocol {
  /** Returns the request that asks how a job is doing. */
  buildPoll(job: UpstreamJob): UpstreamRequest
  /** Returns how it is doing. Throws `provider_unavailable` for what is no answer to that. */
  readState(body: unknown, job: UpstreamJob): JobState
  /** Returns the request for the results of a completed job, where `readState` has none. */
  buildResult?(job: UpstreamJob): UpstreamRequest
  /** Returns the state of a completed job by the answer to that request. */
  readResult?(status: number, body: unknown): JobState
  /** Returns the request that ends a job; absent if none does. */
  buildCancel?(job: UpstreamJob): UpstreamRequest
  /** Returns a result that is in the answer itself, in base64; undefined if it is not there. */
  readInline?(body: unknown, index: number): string | undefined
}

/** The parameters that a protocol leaves out: of every call, or of those that it tells. */
export type Lacks = Partial<Record<keyof Params, true | IsLacking>>

/** Tells whether a parameter of the call has no effect on its body for the endpoint. */
export type IsLacking = (call: TextCall, endpoint: Endpoint) => boolean

/** The wire format of one provider family. It only translates: no clock, no network, no secrets. */
export interface Protocol<K extends Kind> {
  framing: Framing
  /**
   * Whether the wire has a field for a message's `name`. Without one, the name is sent as a prefix
   * of the text.
   */
  acceptsNames: boolean
  /**
   * The kinds of media that the provider fetches from a URL itself. The gateway fetches all others
   * and sends them as data URLs.
   */
  urlMedia: Media[]
  /**
   * The dialect whose tools and items providers take as they came, whatever they are. Absent if
   * there is none.
   */
  nativeDialect?: TextDialect
  /** Whether the endpoint's provider has functions alone of it all. Absent if none is like that. */
  hasFunctionsAlone?(endpoint: Endpoint): boolean
  /**
   * The schemes of media that the provider has in its own storage, such as `gs://`. Absent if it has
   * none.
   */
  ownSchemes?: string[]
  /**
   * Whether the provider searches the web itself for this call and supports all of its
   * `web_search_options`. The gateway has no search of its own.
   */
  supportsWebSearch?(call: Work[K]['call'], endpoint: Endpoint): boolean
  /**
   * The parameters of a call that have no form here. A client is told which of its own were left
   * out. Absent where `listIgnored` of the kind knows them.
   */
  lacks?: Lacks
  /** Returns what the provider gets of the parameters that the gateway does not know. */
  pickExtra?(call: Work[K]['call'], endpoint: Endpoint): Json
  /**
   * Returns the most inputs or documents of one request: a call with more is asked for in several.
   * Absent where no bound is known, and for work that has one input.
   */
  getMostItems?(endpoint: Endpoint): number
  /**
   * Returns the upstream request for the call. Throws 400 for what this protocol cannot express.
   */
  buildRequest(call: Work[K]['call'], endpoint: Endpoint): UpstreamRequest
  /**
   * Returns the parts of a whole answer. Throws `provider_unavailable` if the body is no answer.
   */
  parseAnswer(body: unknown, call: Work[K]['call'], endpoint: Endpoint): Work[K]['part'][]
  /**
   * Returns what to ask next if the answer only says that the work goes on; null for a whole one.
   * `asked` is what brought the answer; null for the request itself. Absent if every answer is
   * whole.
   */
  readPending?(body: unknown, endpoint: Endpoint, asked: FollowUp | null): FollowUp | null
  /** Creates a reader for one streamed answer. */
  createReader(call: Work[K]['call'], endpoint: Endpoint): Reader<Work[K]['part']>
  /**
   * Creates a reader for an answer of bytes: neither JSON nor events, as its media type says. It
   * gets a frame for each read. Absent if no answer is one.
   */
  createByteReader?(call: Work[K]['call'], endpoint: Endpoint): Reader<Work[K]['part']>
  /** How the job is followed that an answer only begins. Absent for work that is done at once. */
  job?: JobProtocol
  /**
   * Returns the error that our caller gets for an upstream failure. `header` reads one response
   * header by its lower-case name.
   */
  readFailure(status: number, body: unknown, header?: (name: string) => string | null): GatewayError
}

/** Whether the call asks for a web search and sets no search options but these. */
export const hasOnlySearchOptions = (
  { params: { web_search_options: options } }: TextCall,
  names: string[],
): boolean => isObject(options) && Object.keys(options).every(name => names.includes(name))
