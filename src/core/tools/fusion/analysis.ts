import type { Healer } from '../../healing.ts'
import { isObject, type Json, parseObject, readString } from '../../kernel/json.ts'

/** What a judge finds in the answers of a panel (wire reference D.4). */
export interface FusionAnalysis {
  consensus: string[]
  contradictions: { topic: string; stances: { model: string; stance: string }[] }[]
  partial_coverage: { models: string[]; point: string }[]
  unique_insights: { model: string; insight: string }[]
  blind_spots: string[]
}

/** What a judge is told to answer with. */
export const ANALYSIS_SHAPE = `{
  "consensus": ["a point that all or most answers share"],
  "contradictions": [{"topic": "…", "stances": [{"model": "…", "stance": "…"}]}],
  "partial_coverage": [{"point": "what only some answers have", "models": ["…"]}],
  "unique_insights": [{"model": "…", "insight": "…"}],
  "blind_spots": ["what no answer looks at"]
}`

/**
 * Reads the analysis that a judge has written, prose and fences around it left out. Entries in
 * another form are left out too; null if the text is no analysis at all.
 */
export async function readAnalysis(healer: Healer, text: string): Promise<FusionAnalysis | null> {
  const healed = await healer.heal({ text, schema: null })
  if (healed.outcome === 'unmended') return null
  const found = parseObject(healed.outcome === 'mended' ? healed.text : text)
  return found && FIELDS.some(name => Array.isArray(found[name])) ? toAnalysis(found) : null
}

const FIELDS = [
  ...['consensus', 'contradictions', 'partial_coverage', 'unique_insights', 'blind_spots'],
]

const toAnalysis = (found: Json): FusionAnalysis => ({
  consensus: listTexts(found.consensus),
  contradictions: listObjects(found.contradictions).flatMap(toContradiction),
  partial_coverage: listObjects(found.partial_coverage).flatMap(({ point, models }) =>
    typeof point === 'string' ? { point, models: listTexts(models) } : [],
  ),
  unique_insights: listObjects(found.unique_insights).flatMap(({ model, insight }) =>
    typeof insight === 'string' ? { model: readString(model) ?? '', insight } : [],
  ),
  blind_spots: listTexts(found.blind_spots),
})

const toContradiction = ({ topic, stances }: Json) =>
  typeof topic === 'string'
    ? {
        topic,
        stances: listObjects(stances).flatMap(({ model, stance }) =>
          typeof stance === 'string' ? { model: readString(model) ?? '', stance } : [],
        ),
      }
    : []

const listTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(one => typeof one === 'string') : []

const listObjects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(one => isObject(one)) : []
