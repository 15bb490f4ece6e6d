/** The public service's slugs of providers that have another slug here. */
export const ALIASES: Record<string, string[]> = {
  'amazon-bedrock': ['bedrock'],
  'arcee-ai': ['arcee'],
  'google-ai-studio': ['google'],
  'google-vertex': ['vertex', 'vertex-anthropic'],
  voyageai: ['voyage'],
  'z-ai': ['zai'],
}
