import type { UsdPerMillionTokens } from '../../config/prices.ts'

/** One model at one provider, as the generated data has it. */
export interface EndpointRow {
  provider: string
  /** The provider's own name for it. */
  model: string
  /** Absent: the provider's own. */
  protocol?: string
  /** Absent where no price is known. */
  prices?: UsdPerMillionTokens
  /** Absent: the model's. */
  context_length?: number
  max_completion_tokens?: number
  /** Absent where it is not known. */
  reasoning?: boolean
  quantization?: string
  region?: string
}

/** A model as the generated data has it. Absent modalities are text. */
export interface ModelRow {
  id: string
  name: string
  /** The day of its release, ISO 8601; of some only the month was known, and it is the first. Absent where nobody knows. */
  created?: string
  context_length?: number
  input?: string[]
  output?: string[]
  reasoning?: { mandatory: boolean; supported_efforts?: string[] }
  endpoints: EndpointRow[]
}

/** The generated data: `bun run catalog` writes it. */
export interface CatalogData {
  /** The day of its generation, ISO 8601. */
  generated: string
  sources: { name: string; version: string; licence: string }[]
  /** Another name → the slug. */
  aliases: Record<string, string>
  models: ModelRow[]
}
