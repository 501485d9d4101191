package integration

import (
	_ "github.com/factmill/factmill/services/chunker"
	_ "github.com/factmill/factmill/services/committer"
	_ "github.com/factmill/factmill/services/extractor"
	_ "github.com/factmill/factmill/services/loader"
	_ "github.com/factmill/factmill/services/resolver"
	_ "github.com/factmill/factmill/services/reviewer"
)
