import type { GatewayError } from '../../base/errors.ts'
import type { TextCall } from '../../language/call.ts'
import type { Router, SortKey } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Limit } from '../../limits/ledger.ts'
import type { Rule } from '../../limits/policy-world.ts'
import type { DecryptedKey } from '../../resources/byok/decrypted-keys.ts'
import type { Endpoint, Model } from '../../resources/models/catalog.ts'
import type { Session } from '../traffic.ts'
import type { DroppedEndpoint } from './refusal.ts'

/** How the models of a call were found (wire reference K.4). */
export type Strategy =
  | ('direct' | 'auto' | 'free' | 'pareto' | 'latest' | 'alias' | 'fallback')
  | ('fusion' | 'bodybuilder')

/**
 * One entry of `pipeline`: what was done with a call apart from sending it (wire reference K.6).
 */
export interface PipelineStage {
  type: 'guardrail' | 'plugin' | 'server_tools' | 'response_healing' | 'context_compression'
  name: string
  summary?: string
  guardrail_id?: string
  guardrail_scope?: string
  data?: Record<string, unknown>
}

/** The models that a router has picked, best first, and how; or why it could not. */
export interface RouterDecision {
  models: Model[]
  stage: PipelineStage
  refusal: GatewayError | null
}

/** The models of a call, in the order in which they are tried, and how they were found. */
export interface ModelResolution<K extends Kind> {
  models: ResolvedModel<K>[]
  strategy: Strategy
  stages: PipelineStage[]
}

/** A model, and what its variant changes. */
export interface ResolvedModel<K extends Kind> {
  model: Model
  sort: SortKey | undefined
  /** The call as this model gets it. */
  effectiveCall: Work[K]['call']
  /** What plugins did to fit the call to this model. */
  stages: PipelineStage[]
  /** The router that picked the model; absent if the caller names it. */
  router?: RouterReference
}

/** A router as a slug names it, with the variant: that is applied to the model that it picks. */
export interface RouterReference {
  slug: string
  router: Router
  variant: string
  /** The router as a model. */
  model: Model
}

/** What planning needs in addition to the call. */
export interface PlanInputs {
  /** The provider keys that may be used for the call. */
  byokKeys: DecryptedKey[]
  rules: Rule[]
  /** What may be spent, where a key pays. */
  bounds?: Limit[]
  session: Session | null
  /** The id of the endpoint that answered the previous step. */
  previousEndpointId?: string
}

/** A call for which a router picks a model, and the other inputs of planning. */
export interface RouterInputs extends PlanInputs {
  call: TextCall
}

/** The endpoints to try, in order, out of all candidates. */
export interface Plan<K extends Kind = Kind> extends Candidates<K> {
  endpoints: Endpoint[]
}

/** The endpoints that may serve a call, before they are ordered, and why others may not. */
export interface Candidates<K extends Kind = Kind> extends ModelResolution<K> {
  groups: CandidateGroup[]
  dropped: DroppedEndpoint[]
}

/** Endpoints that are ordered together, tier by tier. */
export interface CandidateGroup {
  tiers: Endpoint[][]
  /** The sort key of the model's variant. */
  sort: SortKey | undefined
  /** The id of the endpoint that serves the call's session. */
  stickyEndpointId: string | undefined
}
