import type { TSchema } from '@sinclair/typebox'
import type { Draft } from '../catalog/presets.ts'
import type { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Answer } from '../language/answer.ts'
import type { Origin } from '../language/call.ts'
import type { DialectName, TextDialect } from '../language/dialect.ts'
import type { Kind, Work } from '../language/work.ts'
import type { DialectWorld } from './world.ts'

/**
 * How one client family speaks: its requests, answers and failures. It only translates.
 * `registry.ts` lists all of them, and the server makes a route for each.
 */
export interface Dialect<K extends Kind = Kind, Body = DialectBody> {
  name: DialectName
  /** The kind of work that it asks for. */
  kind: K
  /** The path of its route, below `/api/v1`. */
  path: `/${string}`
  /** What the API's description says of the route. */
  operation: { id: string; tag: string; summary: string }
  /** The schema of its bodies. Everything below is given bodies that fit. */
  body: TSchema
  /** The form of its refusals, where that is not the usual error envelope. */
  refusal?: Refusal
  /** The key may come in `x-api-key` too. */
  eitherHeader?: boolean
  /** Clients that ask for it by header are told how their call was routed. */
  showsRouting?: boolean
  /**
   * Translates a body into the call, with the preset that it names laid under it. Throws 400 where
   * its fields contradict each other, and 404 for a preset that cannot be used.
   */
  understand(world: DialectWorld, actor: Actor, body: Body, context: CallContext): Work[K]['call']
  /** Collects the parts of an answer into one JSON value. Throws the error of one that failed. */
  whole(answer: Answer<K>, call: Work[K]['call'], body: Body): Promise<unknown>
  /** How it streams; absent where every answer is whole. */
  streaming?: Streaming<K, Body>
  /** The request that presets are made of, where it has one. */
  preset?: PresetForm
}

/** How answers are written as server-sent events. */
export interface Streaming<K extends Kind = Kind, Body = DialectBody> {
  /** The comment or event that is sent while the client waits: a text that its parser skips. */
  keepAlive(serviceName: string): string
  /** Writes the events of an answer, batch by batch. Leaving early leaves the answer early. */
  events(answer: Answer<K>, call: Work[K]['call'], body: Body): AsyncIterator<string>
  /** Writes the events of a call that failed after its stream had begun with keep-alives. */
  failure(heading: Heading, error: GatewayError, call: Work[K]['call'], body: Body): string
}

/** What every body may hold, in any dialect: the wish for a dry run instead of an answer. */
export interface DialectBody {
  debug?: { dry_run?: boolean | null; key?: string | null } | null
}

/** What is known of a call besides its body: what its headers said that the body may also say. */
export interface CallContext {
  origin: Origin
  /** The generation's id, known from the start, so that an error can carry it too. */
  id: string
  session_id: string | null
  betas: string[]
  /** The member under which the caller wants to see how the call was routed. */
  routingMetadata?: string
}

/** What the events of an answer say of it before it has begun. */
export type Heading = Pick<Answer<Kind>, 'id' | 'created' | 'model' | 'provider'>

/** A form of refusals: its name and schema in the description, and how a failure is put into it. */
export interface Refusal {
  name: string
  schema: object
  /** `id` is the generation's; null for what is refused before there is one. */
  envelope(error: GatewayError, id: string | null): unknown
}

/** A request that presets are made of. */
export interface PresetForm<Body = unknown> {
  name: TextDialect
  /** The path of its route, below the preset's own. */
  path: `/${string}`
  operation: { id: string; summary: string }
  body: TSchema
  /** Translates a body into what the preset keeps of it, in the chat API's words. */
  toDraft(body: Body): Draft
}
