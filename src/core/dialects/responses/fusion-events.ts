import { isObject, type Json } from '../../kernel/json.ts'
import type { ItemEvent, ItemPlace } from './events.ts'

/** Whether an item is a use of the tool that asks a panel, under any prefix. */
export const isFusion = ({ type }: Json): boolean =>
  typeof type === 'string' && type.endsWith(':fusion')

/** Renders the event with which a panel is asked (wire reference D.5). */
export const renderFusionBirth = (place: ItemPlace): ItemEvent => ({
  type: 'response.fusion_call.in_progress',
  ...place,
})

/** Renders what each model of the panel answered, what the judge found, and the end. */
export function renderFusionEnd(place: ItemPlace, item: Json): ItemEvent[] {
  const { responses, failed_models, analysis } = item
  return [
    ...listObjects(responses).flatMap(one => renderAnswer(place, one)),
    ...listObjects(failed_models).flatMap(one => renderFailure(place, one)),
    ...(isObject(analysis)
      ? [{ type: 'response.fusion_call.analysis.completed', ...place, analysis }]
      : []),
    { type: 'response.fusion_call.completed', ...place },
  ]
}

const renderAnswer = (place: ItemPlace, { model, content }: Json): ItemEvent[] => [
  { type: 'response.fusion_call.panel.added', ...place, model },
  { type: 'response.fusion_call.panel.delta', ...place, model, delta: content },
  { type: 'response.fusion_call.panel.completed', ...place, model, content },
]

/** The status of a model that failed without one. */
const NO_STATUS = 502

const renderFailure = (
  place: ItemPlace,
  { model, error, status_code = NO_STATUS }: Json,
): ItemEvent[] => [
  { type: 'response.fusion_call.panel.added', ...place, model },
  { type: 'response.fusion_call.panel.failed', ...place, model, error, status_code },
]

const listObjects = (value: unknown): Json[] =>
  Array.isArray(value) ? value.filter(one => isObject(one)) : []
