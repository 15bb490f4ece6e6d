import { understand as understandBody } from './chat/request.ts'
import { withPresets } from './presets.ts'

export { speaksOfFunctions } from './chat/legacy.ts'
export { chatResponse } from './chat/response.ts'
export { ChatRequest, CompletionRequest } from './chat/schema.ts'
export { type Shape, shapeOf } from './chat/shape.ts'
export { chatEvents, chatFailure } from './chat/stream.ts'

/** A checked body → the call, the preset that it names laid under it. Throws 400 where fields contradict each other, 404 for no such preset. */
export const understand = withPresets(understandBody)
