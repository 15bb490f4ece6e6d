/** The public terms for models and endpoints (wire reference B.4). Its clients know no others. */
export const INPUT_MODALITIES = ['text', 'image', 'file', 'audio', 'video'] as const
export const OUTPUT_MODALITIES = [
  'text',
  'image',
  'embeddings',
  'audio',
  'video',
  'rerank',
  'speech',
  'transcription',
  'decisions',
] as const
export const QUANTIZATIONS = [
  'int4',
  'int8',
  'fp4',
  'mxfp4',
  'nvfp4',
  'fp6',
  'fp8',
  'mxfp8',
  'fp16',
  'bf16',
  'fp32',
  'unknown',
] as const
