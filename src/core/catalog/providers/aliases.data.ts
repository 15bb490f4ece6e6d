/** What the public service calls a provider, where it is not what we call it. */
export const ALIASES: Record<string, string[]> = {
  'amazon-bedrock': ['bedrock'],
  'arcee-ai': ['arcee'],
  'google-ai-studio': ['google'],
  'google-vertex': ['vertex', 'vertex-anthropic'],
  voyageai: ['voyage'],
  'z-ai': ['zai'],
}
