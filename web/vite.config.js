// SPDX-License-Identifier: Apache-2.0
// One document with everything in it: the aggregator marks its style and its script with a nonce, and nothing else may run.
import { defineConfig } from "vite";

function oneDocument() {
  return {
    name: "one-document",
    enforce: "post",
    generateBundle(_, bundle) {
      const parts = Object.values(bundle);
      const page = parts.find((p) => p.fileName === "index.html");
      const script = parts.find((p) => p.type === "chunk");
      const style = parts.find((p) => p.fileName.endsWith(".css"));
      const code = script.code.replaceAll("</script", "<\\/script").trim();
      page.source = String(page.source)
        .replace(/\s*<script[^>]*><\/script>/g, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/g, "")
        .replace("</head>", () => `<style>${style.source.trim()}</style>\n</head>`)
        .replace("</body>", () => `<script>${code}</script>\n</body>`);
      delete bundle[script.fileName];
      delete bundle[style.fileName];
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneDocument()],
  // Unit tests: no document, no network, and nothing is kept beside the packages, which several checkouts share.
  test: { include: ["tests/**/*.test.ts"], environment: "node", pool: "threads", isolate: false, cache: false, fsModuleCache: false },
  build: { modulePreload: false, cssCodeSplit: false, target: "es2022", rollupOptions: { output: { format: "iife" } } },
});
